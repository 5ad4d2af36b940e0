/**
 * An operation is described once: what the command line, a request, the library and the manual know
 * of a setting comes from the same line of its schema.
 */
import path from 'node:path';
import { describe, expect, test } from '@jest/globals';
import yargs from 'yargs';
import { z } from 'zod';
import { operationCommand, settingsOf } from '../../src/cli/operation-command.js';
import { jobSchemas, JOB_KINDS, kindOf } from '../../src/jobs/kinds.js';
import { fieldOf, type Field } from '../../src/operations/flags.js';
import { OPERATIONS } from '../../src/operations/index.js';
import { operation } from '../../src/operations/operation.js';
import { FREE, textsOf } from '../models/request-texts.js';

/** Paths of the settings of a schema: `seed`, `sampling.temperature`. */
const pathsOf = ({ properties = {} }: Field): string[] =>
  Object.entries(properties).flatMap(([name, field]) =>
    field.properties === undefined
      ? [name]
      : Object.keys(field.properties).map((member) => `${name}.${member}`),
  );
const JOBS = OPERATIONS.filter(({ job }) => job !== undefined).map(
  (each, i) => [each.id, each, JOB_KINDS[i]!] as const,
);

describe.each(JOBS)('%s', (_, { settings, flags }, kind) => {
  test('has the same settings as flags, over HTTP and in Node, but for the local ones', () => {
    const all = flags.all.map((flag) => flag.path);
    const local = flags.all.filter(({ field }) => field.local === true).map((flag) => flag.path);
    expect([...pathsOf(fieldOf(kind.settings)), ...local].sort()).toEqual([...all].sort());
    expect(pathsOf(fieldOf(settings)).sort()).toEqual([...all].sort());
    const names = flags.all.map(({ name }) => name);
    expect(new Set(names).size).toBe(names.length);
  });

  test('says of each setting what it is', () => {
    for (const { name, field } of flags.all)
      expect([name, field.description]).toEqual([name, expect.stringMatching(/\S/)]);
  });
});

describe('text that a request states', () => {
  const texts = JOB_KINDS.flatMap(({ id, settings }) =>
    textsOf(fieldOf(settings)).map(({ at, field }) => [id, at, field] as const),
  );

  test.each(texts)(
    'of %s: %s is a name of the server, of a pattern, or free text',
    (_, at, field) => {
      const isName = field.names !== undefined;
      const isFree = FREE.has(at);
      expect([at, isName || field.pattern !== undefined || isFree]).toEqual([at, true]);
    },
  );

  test('nothing is free that is not there', () => {
    const found = new Set(texts.map(([, at]) => at));
    expect([...FREE].filter((at) => !found.has(at))).toEqual([]);
  });
});

describe('a setting of an operation that nobody else knows', () => {
  const greet = operation({
    id: 'greet',
    title: 'Say a word to somebody',
    settings: z.strictObject({
      loudLetters: z.int().min(1).max(9).default(3).describe('letters that are loud'),
      out: z.string().optional().describe('a file').meta({ local: true }),
    }),
    run: async ({ loudLetters }) => ({ said: 'A'.repeat(loudLetters) }),
    job: { memoryBytes: async () => 1 },
  });
  const command = operationCommand(greet, {
    examples: [],
    interrupted: ['the greeting', 'Greet again.'],
    text: ({ said }) => `${said}\n`,
  });

  test('is a flag with its help and its default', async () => {
    const help = await new Promise<string>((resolve) => {
      void yargs(['greet', '--help'])
        .command(command)
        .wrap(120)
        .exitProcess(false)
        .parse(['greet', '--help'], (_: unknown, __: unknown, text: string) => resolve(text));
    });
    expect(help).toMatch(/--loud-letters +letters that are loud +\[number\] \[default: 3\]/);
  });

  test('is read from the command line, and refused by the flag', () => {
    expect(settingsOf(greet, { loudLetters: 5 }).settings).toEqual({ loudLetters: 5 });
    expect(settingsOf(greet, {}).settings).toEqual({ loudLetters: 3 });
    expect(() => settingsOf(greet, { loudLetters: 10 })).toThrow(/^--loud-letters: /);
    expect(greet.flags.words({ loudLetters: 5 })).toEqual(['--loud-letters=5']);
  });

  test('is in the schema of requests, in the OpenAPI document, and so in the form; a local one is not', () => {
    const kind = kindOf(greet);
    const { 'JobSettings.greet': schema } = jobSchemas([kind]) as Record<string, Field>;
    expect(Object.keys(schema!.properties!)).toEqual(['loudLetters']);
    expect(schema!.properties!.loudLetters).toMatchObject({
      type: 'integer',
      minimum: 1,
      maximum: 9,
      default: 3,
      description: 'letters that are loud',
    });
    expect(kind.read({ loudLetters: 4 })).toEqual({ loudLetters: 4 });
    expect(() => kind.read({ out: '/tmp/x' })).toThrow(/there is no "out"/);
  });

  test('is in the manual', async () => {
    const { flagsOf } = (await import(path.resolve('scripts/document-commands.mjs'))) as {
      flagsOf: (of: unknown) => string;
    };
    expect(flagsOf(command)).toContain('| `--loud-letters N` | 3 | letters that are loud |');
  });

  test('is a setting in Node', async () => {
    expect(await greet.run({ loudLetters: 2 })).toEqual({ said: 'AA' });
    await expect(greet.run({ loudLetters: 0 })).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
      message: expect.stringContaining('settings.loudLetters'),
    });
  });
});
