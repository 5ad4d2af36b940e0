import { inspectAdapter, type AdapterInspection } from '../../engine/adapter-files.js';
import { nameAdapter } from '../../lookup/adapter-reference.js';
import { registryOf, registryOption } from '../registry-flags.js';
import { print, printJson } from '../output.js';
import { formatNumber } from '../quantities.js';
import { command } from '../command.js';
import { adapterArgument, toggle } from '../option.js';

type Module = AdapterInspection['modules'][number];

const list = (values: readonly number[]): string =>
  [...new Set(values)]
    .sort((a, b) => a - b)
    .map(formatNumber)
    .join(', ');

/** attn_k of blk.3.attn_k; the whole name where the matrix belongs to no layer. */
const kindOf = ({ name }: Module): string => name.replace(/^blk\.\d+\./, '');
const layersOf = (group: readonly Module[]): number[] =>
  group.flatMap(({ name }) => /^blk\.(\d+)\./.exec(name)?.[1] ?? []).map(Number);

/** 0-3, 7 */
function ranges(layers: readonly number[]): string {
  const runs: [number, number][] = [];
  for (const layer of [...layers].sort((a, b) => a - b)) {
    const last = runs.at(-1);
    if (last?.[1] === layer - 1) last[1] = layer;
    else runs.push([layer, layer]);
  }
  return runs
    .map(([first, last]) => (first === last ? String(first) : `${first}-${last}`))
    .join(', ');
}

function printTable(head: readonly string[], rows: readonly (readonly string[])[]): void {
  const widths = head.map((cell, column) =>
    Math.max(cell.length, ...rows.map((row) => row[column]!.length)),
  );
  for (const row of [head, ...rows])
    print(
      `${row
        .map((cell, column) => cell.padEnd(widths[column]!))
        .join('  ')
        .trimEnd()}\n`,
    );
}

export const adaptersInspectCommand = command({
  command: 'inspect <adapter>',
  describe: 'Show the modules, ranks, alpha, norms, hash and base of an adapter',
  positionals: { adapter: adapterArgument },
  options: {
    registry: registryOption,
    modules: toggle('one line per module instead of one per kind'),
  },
  epilogue:
    '|sBA| is the Frobenius norm of what the adapter adds to a matrix; 0 means that it changes nothing. --json lists every module.',
  examples: [
    ['$0 adapters inspect adapter.gguf', 'a table of its modules'],
    ['$0 adapters inspect peft-folder --modules', 'every module of a PEFT adapter'],
  ],
  handler: async ({ adapter: named, modules: every, json, ...flags }) => {
    const { file: adapter, published } = await nameAdapter(named, registryOf(flags));
    const inspection = await inspectAdapter(adapter);
    if (json)
      return printJson({
        path: adapter,
        ...inspection,
        ...(published === null ? {} : { id: published.id, record: published.record }),
      });
    const { format, architecture, sha256, parameters, layers, base, modules, invocationTokens } =
      inspection;
    const known = [base.name, base.sha256 === null ? null : `sha256 ${base.sha256}`].filter(
      (part) => part !== null,
    );
    const lines = [
      ...(published === null ? [] : [['name', `${published.name} (${published.id})`]]),
      ['adapter', `${adapter} (${format === 'peft' ? 'PEFT' : 'GGUF'})`],
      ['sha256', sha256],
      ['model', architecture === '' ? 'unknown architecture' : architecture],
      ['base', known.length === 0 ? 'unknown' : known.join(', ')],
      ...(invocationTokens === null
        ? []
        : [['acts', `from the reply on (invocation tokens ${invocationTokens.join(', ')})`]]),
      [
        'adapts',
        `${modules.length} matrices in ${layers.length} layers (${ranges(layers)}), ${parameters} parameters`,
      ],
    ];
    for (const [key, value] of lines) print(`${key!.padEnd(8)} ${value}\n`);
    print('\n');
    const cells = (group: readonly Module[]): string[] => [
      list(group.map(({ rank }) => rank)),
      list(group.map(({ alpha }) => alpha)),
      `${group[0]!.outputs} x ${group[0]!.inputs}`,
      formatNumber(Math.max(...group.map(({ norm }) => norm))),
    ];
    if (every) {
      printTable(
        ['module', 'rank', 'alpha', 'matrix', '|sBA|', '|A|', '|B|'],
        modules.map((module) => [
          module.name,
          ...cells([module]),
          formatNumber(module.normA),
          formatNumber(module.normB),
        ]),
      );
    } else {
      const kinds = new Map<string, Module[]>();
      for (const module of modules)
        kinds.set(kindOf(module), [...(kinds.get(kindOf(module)) ?? []), module]);
      printTable(
        ['module', 'layers', 'rank', 'alpha', 'matrix', 'largest |sBA|'],
        [...kinds].map(([kind, group]) => [kind, ranges(layersOf(group)), ...cells(group)]),
      );
    }
    if (modules.every(({ norm }) => norm === 0))
      print('\nThe adapter changes nothing: every B A is 0.\n');
  },
});
