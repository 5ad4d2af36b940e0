import { z } from 'zod';
import { requireAlias } from '../../registry/names.js';
import { flags, jobKind } from './kind.js';
import { count, model } from './members.js';
import { contextOf, memoryOf } from '../../operations/memory.js';

const settings = z.strictObject({
  adapter: z
    .string()
    .regex(/^[0-9a-f]{64}$/, 'expected the whole id of a published adapter')
    .describe('id of a published adapter'),
  as: z
    .string()
    .min(1)
    .max(400)
    .describe('name that will stand for it: SCENARIO or SCENARIO@ALIAS'),
  problems: count(10_000)
    .optional()
    .describe('most fresh problems that both versions are asked; default: 100'),
  model: model.describe('base of both, a model of this server; default: the one that it serves'),
  reason: z.string().max(2000).optional().describe('for the record'),
  threads: count(1024).optional().describe('default: the physical cores'),
});

/**
 * What the gate measures with is the server's own: its registry, a task that it knows by the
 * scenario's name, one of its models.
 */
export const gate = jobKind({
  id: 'gate',
  title:
    'Hold a published adapter against the one in use, and put it in its place where it is better',
  settings,
  isForAdmin: true,
  async prepare({ adapter, as, problems = 100, model: stated, ...others }, { names, id }) {
    const named = stated ?? names.allowed.model;
    const real = names.model(named, 'settings.model');
    const task = names.task(requireAlias(as).slot.scenario, 'settings.as');
    const asked = {
      as,
      problems,
      model: real,
      task,
      registry: names.registry('kind'),
      ...others,
      transaction: id,
    };
    return {
      args: ['adapters', 'promote', adapter, ...flags(asked)],
      run: null,
      memoryBytes: await memoryOf(real, contextOf(real)),
      resolved: { adapter, as, problems, model: named, ...others },
    };
  },
  // another gate would be another attempt, with less of alpha left
  again: () => ['--resume'],
  isResult: (code) => code === 3, // not accepted: nothing was moved
});
