import { availableMemory } from '../../engine/diagnosis.js';
import { inspectModel, type ModelInspection } from '../../engine/inspect.js';
import { estimateMemory } from '../../engine/memory-estimate.js';
import {
  EMBEDDED_MODEL,
  EMBEDDED_MODEL_LICENCE,
  MODEL_ALIASES,
  cachedModels,
  modelsFolder,
  resolveModel,
} from '../../engine/model-files.js';
import { suitability, type Suitability } from '../../engine/suitability.js';
import { label } from '../../text/hostile-text.js';
import { terminalStyle, wrapped } from '../../text/terminal-style.js';
import { interruption, print, printJson, UsageError } from '../output.js';
import { Progress } from '../progress.js';
import { formatBytes, formatNumber } from '../quantities.js';
import { command, commandGroup } from '../command.js';
import { number, required, toggle } from '../option.js';

const UNTESTED =
  '"no" under "tested": the developers of isopro-native have not downloaded the file. ' +
  'Its address and its size come from public pages. ' +
  'If the hub does not have it, name another file with hf: or give a path.';

const list = command({
  command: 'list',
  describe: 'List aliases and cached models',
  examples: [['$0 models list', 'names that --model takes']],
  handler: async ({ json }) => {
    const cached = await cachedModels();
    const aliases = Object.entries(MODEL_ALIASES).map(
      ([alias, { uri, approximateBytes, licence, tested }]) => {
        const file = cached.find((model) => model.alias === alias);
        return {
          alias,
          uri,
          licence,
          tested,
          cached: file !== undefined,
          bytes: file?.bytes ?? approximateBytes,
          path: file?.path ?? null,
        };
      },
    );
    const embedded = {
      alias: EMBEDDED_MODEL,
      licence: EMBEDDED_MODEL_LICENCE,
      path: (await resolveModel(EMBEDDED_MODEL)).path,
    };
    const others = cached
      .filter((model) => model.alias === null)
      .map(({ path, bytes }) => ({ path, bytes }));
    if (json) return printJson({ folder: modelsFolder(), embedded, aliases, others });
    const style = terminalStyle(process.stdout);
    const rows = [
      ['name', 'licence', '', 'size', 'tested', 'address'],
      [
        EMBEDDED_MODEL,
        EMBEDDED_MODEL_LICENCE,
        'here',
        '',
        'yes',
        'embedded: ships with isopro-native, for the task scheduling',
      ],
      ...aliases.map(({ alias, uri, licence, tested, cached, bytes }) => [
        alias,
        licence,
        cached ? 'here' : '',
        `${cached ? '' : '~'}${formatBytes(bytes)}`,
        tested ? 'yes' : 'no',
        uri,
      ]),
    ];
    const widths = rows[0]!.map((_, i) => Math.max(...rows.map((row) => row[i]!.length)));
    // where both do not fit on a line, addresses have one of their own
    const whole = widths.reduce((sum, each) => sum + each + 2, -2);
    const folded = whole > (style.prose ?? Infinity);
    for (const row of rows) {
      const cells = row
        .slice(0, -1)
        .map((cell, i) => (i === 3 ? cell.padStart(widths[i]!) : cell.padEnd(widths[i]!)));
      const line = cells.join('  ');
      print(folded ? `${line.trimEnd()}\n    ${row.at(-1)!}\n` : `${line}  ${row.at(-1)!}\n`);
    }
    if (aliases.some(({ tested }) => !tested)) print(`\n${wrapped(UNTESTED, style, 0)}\n`);
    if (others.length > 0) print('\nother cached models\n');
    for (const { path, bytes } of others) print(`${formatBytes(bytes).padStart(8)}  ${path}\n`);
    print(`\ncache folder: ${modelsFolder()}\n`);
  },
});

const pull = command({
  command: 'pull <model>',
  describe: 'Download a model to the cache',
  positionals: {
    model: required(
      'an alias, hf:<owner>/<repository>/<file>.gguf, hf:<owner>/<repository>:<quantisation>, or a URL',
    ),
  },
  epilogue:
    'An interrupted download resumes if the server provides a checksum, as the hub does. HF_ENDPOINT sets a mirror, HF_TOKEN gives ' +
    'access to gated models, ISOPRO_HOME moves the cache.',
  examples: [
    ['$0 models pull qwen2.5-3b', 'by alias'],
    [
      '$0 models pull hf:bartowski/Llama-3.2-1B-Instruct-GGUF/Llama-3.2-1B-Instruct-Q8_0.gguf',
      'any file on the hub',
    ],
  ],
  handler: async ({ model, json }) => {
    using progress = new Progress({ label: model, unit: 'bytes' });
    const file = await resolveModel(model, {
      signal: interruption(),
      onProgress: ({ phase, downloadedBytes, totalBytes }) =>
        progress.update(downloadedBytes, {
          ...(totalBytes === null ? {} : { total: totalBytes }),
          note:
            phase === 'downloading'
              ? ''
              : phase === 'checking'
                ? 'checking the SHA-256'
                : 'another process is downloading it',
        }),
    });
    progress.clear();
    if (json) printJson(file);
    else print(`${file.path}\n`);
  },
});

const SHOWN_TYPES = 6;

/** Verdicts on running, training and chatting, and limitations. */
function verdictLines(
  { problem, trainingProblem }: ModelInspection,
  { chat, adapter, cautions }: Suitability,
): string[][] {
  if (problem !== null) return [['runs', `no: ${problem.message} (${problem.code})`]];
  const end =
    chat.ends.length === 0
      ? 'no end token is defined'
      : `an answer ends with token ${chat.ends.join(' or ')}`;
  const template = {
    own: 'with its own chat template',
    none: 'with ChatML, since it has no chat template',
    invalid: '',
  }[chat.template];
  return [
    ['runs', 'yes: no known problem'],
    [
      'trains',
      trainingProblem === null
        ? `yes: an adapter of rank ${adapter.rank} on all layers has ${formatNumber(adapter.parameters / 1e6)}M parameters, ` +
          `${formatBytes(adapter.bytes)} more memory with its optimiser`
        : `no: ${trainingProblem.message} (${trainingProblem.code})`,
    ],
    [
      'chats',
      chat.template === 'invalid'
        ? 'no: its chat template cannot be rendered'
        : `yes: ${template}; ${end}`,
    ],
    ...cautions.map((caution, i) => [i === 0 ? 'will not' : '', label(caution, 300)]),
  ];
}

const inspect = command({
  command: 'inspect <model>',
  describe:
    'Show whether a model can run, train and chat, how much memory it needs, and what will not work',
  positionals: { model: required('GGUF file, or a cached alias or URI') },
  options: {
    context: number('KV cache in tokens for the memory estimate', 4096),
    tensors: toggle('list every tensor'),
  },
  epilogue: 'Exit codes: 0 the file can be loaded, 1 it cannot (the reason is printed).',
  examples: [['$0 models inspect qwen2.5-3b --context 32768', 'does it fit into memory?']],
  handler: async ({ model, context, tensors, json }) => {
    if (!Number.isInteger(context) || context < 1)
      throw new UsageError(`--context: expected a whole number of tokens, got ${context}`);
    const { path } = await resolveModel(model, { download: false });
    const inspection = await inspectModel(path);
    const memory = await estimateMemory(path, inspection, context);
    if (inspection.problem !== null) process.exitCode = 1;
    const available = availableMemory();
    const suited =
      inspection.kind === 'adapter' ? null : suitability(inspection, memory, available);
    if (json)
      return printJson({ path, ...inspection, memory, availableBytes: available, ...suited });
    const {
      kind,
      architecture,
      name,
      parameters,
      vocabularySize,
      bytes,
      types,
      metadata,
      problem,
    } = inspection;
    const lines = [
      ['file', `${path} (${formatBytes(bytes)}, GGUF version ${inspection.version})`],
      [
        kind,
        [label(name, 60), label(architecture), `${formatNumber(parameters / 1e6)}M parameters`]
          .filter((part) => part !== '')
          .join(', '),
      ],
      ...(kind === 'adapter'
        ? []
        : [
            ['layers', label(metadata[`${architecture}.block_count`] ?? 'unknown')],
            ['vocabulary', String(vocabularySize)],
            [
              'trained for',
              `${label(metadata[`${architecture}.context_length`] ?? 'an unknown number of')} tokens of context`,
            ],
          ]),
      ...types
        .slice(0, SHOWN_TYPES)
        .map(({ type, tensors: count, parameters: held, bytes: size }) => [
          'tensors',
          `${type}: ${count} with ${formatNumber(held / 1e6)}M parameters, ${formatBytes(size)}`,
        ]),
      ...(types.length > SHOWN_TYPES
        ? [['tensors', `and ${types.length - SHOWN_TYPES} more types (--json lists them)`]]
        : []),
      ...types
        .slice(0, SHOWN_TYPES)
        .filter(({ kernels }) => kernels !== null)
        .map(({ type, kernels, why }) => [
          'kernels',
          kernels === 'own' ? `${type}: own (${why})` : `${type}: llama.cpp's, because ${why}`,
        ]),
      ...(memory === null
        ? []
        : [
            [
              'memory',
              `${formatBytes(memory.totalBytes)}: weights ${formatBytes(memory.weightsBytes)}, KV cache ${formatBytes(memory.kvBytes)} ` +
                `for ${context} tokens (${formatBytes(available)} available)`,
            ],
          ]),
      ...(suited === null
        ? [
            [
              'loads',
              problem === null ? 'no known problem' : `no: ${problem.message} (${problem.code})`,
            ],
            ['more', 'isopro-native adapters inspect shows its modules and its base'],
          ]
        : verdictLines(inspection, suited)),
    ];
    for (const [key, value] of lines)
      print(`${wrapped(`${key!.padEnd(12)} ${value}`, terminalStyle(process.stdout), 13)}\n`);
    if (tensors)
      for (const { name: tensor, type, dimensions, bytes: size } of inspection.tensors)
        print(`${tensor}  ${type}  [${dimensions.join(', ')}]  ${formatBytes(size)}\n`);
  },
});

export const modelsCommand = commandGroup({
  command: 'models',
  describe: 'List, download and inspect model files',
  commands: [list, pull, inspect],
  examples: [['$0 models pull qwen2.5-0.5b', 'download a model']],
});
