import { canonicalJson, type Json } from '../../canonical-json.js';
import { label } from '../../text/hostile-text.js';
import { nameOf } from '../../registry/record.js';
import { lookUp, unresolvedError } from '../../registry/resolve.js';
import type { Entry, RegistryState } from '../../registry/state.js';
import { print, printJson } from '../output.js';
import { registryOf, registryOption } from '../registry-flags.js';
import { command } from '../command.js';
import { required } from '../option.js';

interface Difference {
  readonly member: string;
  readonly one: Json | null;
  readonly other: Json | null;
}

const isObject = (value: Json | undefined): value is { readonly [key: string]: Json } =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

function differences(one: Json | undefined, other: Json | undefined, member = ''): Difference[] {
  if (isObject(one) && isObject(other))
    return [...new Set([...Object.keys(one), ...Object.keys(other)])]
      .sort()
      .flatMap((key) =>
        differences(one[key], other[key], member === '' ? key : `${member}.${key}`),
      );
  return canonicalJson(one ?? null) === canonicalJson(other ?? null)
    ? []
    : [{ member, one: one ?? null, other: other ?? null }];
}

function find(state: RegistryState, text: string): Entry {
  const found = lookUp(state, text);
  if ('ok' in found) throw unresolvedError(found);
  return found;
}

export const adaptersDiffCommand = command({
  command: 'diff <one> <other>',
  describe: 'Compare two published adapters',
  positionals: { one: required('name, id or alias'), other: required('name, id or alias') },
  options: { registry: registryOption },
  examples: [['$0 adapters diff sql@champion sql@challenger', 'what was changed']],
  handler: async ({ one, other, json, ...flags }) => {
    const { state } = await registryOf(flags).read();
    const [a, b] = [find(state, one), find(state, other)];
    const found = differences(a.record as unknown as Json, b.record as unknown as Json);
    const names = [a, b].map(({ record, id }) => nameOf(record, id));
    if (json)
      return printJson({
        one: { id: a.id, name: names[0] },
        other: { id: b.id, name: names[1] },
        differences: found,
      });
    print(`${label(names[0]!, 80)} and ${label(names[1]!, 80)}\n`);
    if (found.length === 0) return print('do not differ\n');
    const text = (value: Json | null): string =>
      label(typeof value === 'string' ? value : JSON.stringify(value), 70);
    for (const { member, one: x, other: y } of found)
      print(`${label(member, 80)}: ${text(x)} -> ${text(y)}\n`);
  },
});
