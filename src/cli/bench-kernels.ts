import { benchKernels } from '../../bench/kernels.js';
import { defineCommand } from './command.js';
import { printJson, printNote } from './output.js';

export const benchKernelsCommand = defineCommand({
  command: 'kernels',
  describe: "Products over quantised weights: ours, OpenBLAS on f32 copies, ggml's out_prod",
  builder: (yargs) =>
    yargs
      .option('rows', { type: 'number', default: 2048, describe: 'rows of the matrix' })
      .option('columns', { type: 'number', default: 11_008, describe: 'columns of the matrix' })
      .option('tokens', {
        type: 'number',
        array: true,
        default: [256, 512],
        describe: 'tokens multiplied together',
      })
      .option('types', {
        type: 'string',
        array: true,
        default: ['q4_K', 'q6_K', 'q8_0'],
        describe: "stored types, by ggml's names",
      })
      .option('threads', {
        type: 'number',
        default: 0,
        describe: 'of all three; 0: the physical cores',
      })
      .option('rounds', {
        type: 'number',
        default: 5,
        describe: 'interleaved rounds; medians are reported',
      })
      .example('$0 bench kernels --types q4_K --tokens 512 --json', ''),
  handler: async ({ json, rows, columns, tokens, types, threads, rounds }) => {
    const rate = (value: number | null): string =>
      (value === null ? '-' : value.toFixed(1)).padStart(8);
    const result = await benchKernels({
      rows,
      columns,
      tokens,
      types,
      threads,
      rounds,
      onRow: (row) =>
        printNote(
          `${row.op.padEnd(3)} ${row.type.padEnd(6)} ${String(row.tokens).padStart(5)} tokens  ours ${rate(row.gflops)}  by to_float ` +
            `${rate(row.toFloat)}  openblas ${rate(row.openblas)}  out_prod ${rate(row.ggmlOutProd)} GFLOP/s\n`,
        ),
    });
    if (json) printJson(result);
  },
});
