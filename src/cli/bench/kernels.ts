import { benchKernels } from '../../../bench/kernels.js';
import { printJson, printNote } from '../output.js';
import { command } from '../command.js';
import { number } from '../option.js';

export const benchKernelsCommand = command({
  command: 'kernels',
  describe:
    "Compare matrix products over quantised weights: own kernels, OpenBLAS on f32 copies, ggml's out_prod",
  options: {
    rows: number('rows of the matrix', 2048),
    columns: number('columns of the matrix', 11_008),
    tokens: {
      type: 'number',
      array: true,
      default: [256, 512],
      describe: 'tokens in one product',
    },
    types: {
      type: 'string',
      array: true,
      default: ['q4_K', 'q6_K', 'q8_0'],
      describe: 'tensor types, by their ggml names',
    },
    threads: number('threads of each; 0: the physical cores', 0),
    rounds: number('interleaved rounds; medians are reported', 5),
  },
  examples: [['$0 bench kernels --types q4_K --tokens 512 --json', '']],
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
          `${row.op.padEnd(3)} ${row.type.padEnd(6)} ${String(row.tokens).padStart(5)} tokens  ours ${rate(row.gflops)}  ` +
            `in bf16 ${rate(row.bf16)}  by to_float ${rate(row.toFloat)}  ` +
            `openblas ${rate(row.openblas)}  out_prod ${rate(row.ggmlOutProd)} GFLOP/s\n`,
        ),
    });
    if (json) printJson(result);
  },
});
