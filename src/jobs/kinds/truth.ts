import path from 'node:path';
import { z } from 'zod';
import { DOMAINS } from '../../truth-seeking/domains/index.js';
import { truthConfig } from '../../truth-seeking/run/config.js';
import { flags, jobKind } from './kind.js';
import { contextOf, memoryOf } from '../../operations/memory.js';

/** A job has no terminal, and reads no file that a request names. */
const { policy: _, signer: __, examples: ___, without: ____, ...members } = truthConfig.shape;
const settings = z.strictObject(members).extend({
  model: z
    .string()
    .min(1)
    .max(200)
    .optional()
    .describe('a model of this server; default: the one that it serves'),
  adapter: z
    .string()
    .min(1)
    .max(200)
    .optional()
    .describe('an adapter of this server, or the id of a job that made one'),
  predictor: z
    .string()
    .min(1)
    .max(200)
    .optional()
    .describe('another model of this server, which predicts answers'),
  judge: z
    .string()
    .min(1)
    .max(200)
    .optional()
    .describe('another model of this server, which says beliefs, rates and grades'),
  domain: z
    .array(z.enum(DOMAINS.map(({ id }) => id) as [string, ...string[]]))
    .min(1)
    .default(['sums-and-claims'])
    .describe('what is asked about'),
});

const DEFAULTS = settings.parse({}) as Readonly<Record<string, unknown>>;

/** What differs from the defaults. */
const changed = (stated: Readonly<Record<string, unknown>>): Record<string, unknown> =>
  Object.fromEntries(
    Object.entries(stated).filter(
      ([name, value]) => JSON.stringify(value) !== JSON.stringify(DEFAULTS[name]),
    ),
  );

export const truth = jobKind({
  id: 'truth',
  title: 'Whether reasoning moves the beliefs of a model towards the truth',
  settings,
  async prepare({ model: named, adapter, predictor, judge, ...stated }, { names, id }) {
    const model = named ?? names.allowed.model;
    const real = names.model(model, 'settings.model');
    const others = Object.entries({ predictor, judge }).flatMap(([member, name]) =>
      name === undefined ? [] : [[member, names.model(name, `settings.${member}`)] as const],
    );
    const sizes = await Promise.all(
      [real, ...others.map(([, file]) => file)].map((each) =>
        memoryOf(each, stated.contextTokens ?? contextOf(each)),
      ),
    );
    const chosen = {
      model: real,
      ...(adapter !== undefined && { adapter: names.adapter(adapter, 'settings.adapter') }),
      ...Object.fromEntries(others),
      ...changed(stated),
    };
    return {
      args: [
        'truth',
        'run',
        ...flags(chosen),
        ...flags({ out: path.join(names.allowed.runs, id) }),
      ],
      run: id,
      memoryBytes: sizes.reduce((sum, size) => sum + size, 0),
      resolved: { ...stated, model, ...(adapter !== undefined && { adapter }) },
    };
  },
});
