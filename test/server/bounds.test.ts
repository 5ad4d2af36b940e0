/**
 * The paths and the bounds of every member of every request are a contract: a client that keeps to
 * them today must not be refused tomorrow. They stand in bounds.txt, one line a path and one a
 * bound; what the server tells in /openapi.json is read by the schemas that refuse requests.
 */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from '@jest/globals';
import type { Parsed } from '../models/parsed.js';
import { asAdmin, folder, send, start } from '../models/server.js';

interface Schema {
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly items?: Schema;
  readonly additionalProperties?: Schema | boolean;
  readonly anyOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
  readonly allOf?: readonly Schema[];
  readonly [keyword: string]: unknown;
}

const RANGES = [
  ['', 'minimum', 'maximum'],
  ['characters ', 'minLength', 'maxLength'],
  ['items ', 'minItems', 'maxItems'],
] as const;
const shown = (limit: unknown): string => (limit === undefined ? '' : String(limit));

function* boundsOf(place: string, schema: Schema): Generator<string> {
  for (const [unit, least, most] of RANGES)
    if (least in schema || most in schema) {
      const open = schema.exclusiveMinimum === true && unit === '' ? 'above ' : '';
      yield `${place} ${unit}${open}${shown(schema[least])}..${shown(schema[most])}`;
    }
  const values = schema.const === undefined ? schema.enum : [schema.const];
  if (values !== undefined) yield `${place} one of ${JSON.stringify(values)}`;
  if ('default' in schema) yield `${place} default ${JSON.stringify(schema.default)}`;
  if ('pattern' in schema) yield `${place} ${String(schema.pattern)}`;
  for (const [name, member] of Object.entries(schema.properties ?? {}))
    yield* boundsOf(`${place}.${name}`, member);
  if (schema.items !== undefined) yield* boundsOf(`${place}[]`, schema.items);
  if (typeof schema.additionalProperties === 'object')
    yield* boundsOf(`${place}.*`, schema.additionalProperties);
  for (const option of [...(schema.anyOf ?? []), ...(schema.oneOf ?? []), ...(schema.allOf ?? [])])
    yield* boundsOf(place, option);
}

test('each path is there, and each member of its requests has the bounds and the default that bounds.txt says', async () => {
  const runs = path.join(folder, 'runs');
  const server = await start({
    runs,
    jobs: { runs, models: [], tasks: [], atOnce: 1 },
  });
  const { paths } = (await send(server, '/openapi.json', { headers: asAdmin })).body;
  await server.close(0);
  const bounds = Object.entries(paths as Record<string, Record<string, Parsed>>).flatMap(
    ([path, operations]) =>
      Object.entries(operations).flatMap(([method, { requestBody, parameters = [] }]) => {
        const body = requestBody?.content?.['application/json']?.schema;
        return [
          `${method} ${path}`,
          ...(body === undefined ? [] : boundsOf(`${method} ${path} `, body)),
          ...parameters.flatMap(({ name, schema }: { name: string; schema: Schema }) => [
            ...boundsOf(`${method} ${path} ?${name}`, schema),
          ]),
        ];
      }),
  );
  const text = `${[...new Set(bounds)].sort().join('\n')}\n`;
  expect(text.split('\n')).toEqual(readFileSync('test/server/bounds.txt', 'utf8').split('\n'));
});
