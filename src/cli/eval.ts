import { MATMUL_HELP, MATMULS } from '../engine/addon.js';
import { open, type FileHandle } from 'node:fs/promises';
import type { Reply } from '../backends/backend.js';
import { IsoproError } from '../errors.js';
import type { EvaluationOptions } from '../evaluation/answers.js';
import { evaluationSet, shortTiers } from '../evaluation/evaluation-set.js';
import { evaluateGreedy } from '../evaluation/greedy.js';
import { evaluatePassAtK, type PassAtKEvaluation } from '../evaluation/pass-at-k.js';
import { judgePolicies, summarisePolicies } from '../evaluation/policies.js';
import type { Failures } from '../run-folder/derived.js';
import { commonestFailure, failureTable, nothingAccepted } from '../report/failures.js';
import { label } from '../report/hostile-text.js';
import { RATE_NOTES, RATE_TITLES } from '../report/figures.js';
import { terminalStyle, wrapped } from '../report/terminal-style.js';
import { figuresGiven, READINGS, summarise, SUMMARY_SEED } from '../statistics/index.js';
import { failureOf, reasonOf } from '../tasks/failures.js';
import { SET_NAMES, SET_SIZE, type SetName } from '../tasks/frozen-sets.js';
import { openTask } from '../tasks/open-task.js';
import { PROMPT_STYLES, type Verdict } from '../tasks/task.js';
import { resolveSettings } from '../training/settings.js';
import { EMBEDDED_MODEL } from '../engine/model-aliases.js';
import { nameAdapter } from '../report/named-adapter.js';
import { answerFrom, answerLocally, loadingOf, recordingOf, runDefaults } from './answering.js';
import { cannotRead, note } from './adapter-notes.js';
import { defineCommand } from './command.js';
import { evalForgetting } from './eval-forgetting.js';
import { howAsked } from './how-asked.js';
import { interruption, print, printJson, UsageError } from './output.js';
import { modelToLoad } from './model-to-load.js';
import { Progress } from './progress.js';
import { measureTables, table, type Row } from './estimate-tables.js';
import { formatDuration } from './quantities.js';
import {
  askingFlags,
  openedWith,
  readCount,
  readSeed,
  taskOption,
  verifierThreadsOption,
} from './tasks-generate.js';
import { registryOf, registryOption } from './registry-flags.js';

const percent = (fraction: number): string => `${(100 * fraction).toFixed(1)} %`;

/** Ascending, whole, none above the samples. */
function readKs(text: string | undefined, samples: number): number[] {
  if (text === undefined) return [...new Set([1, samples])];
  const ks = text.split(',').map(Number);
  if (
    !ks.every(
      (k, i) => Number.isInteger(k) && k >= 1 && k <= samples && (i === 0 || k > ks[i - 1]!),
    )
  )
    throw new UsageError(`--k takes ascending whole numbers from 1 to ${samples}, such as 1,4`);
  return ks;
}

/**
 * What one set of samples gives: any of k, one chosen without the verifier, and how many were
 * well-formed.
 */
function sampledRows(
  { passAtK, lenientPassAtK, format, chosen }: PassAtKEvaluation,
  ks: readonly number[],
  samples: number,
): (readonly [string, Row])[] {
  return [
    ...ks.map((k) => [`pass@${k}`, passAtK[k]!] as const),
    [`majority of ${samples}`, chosen.majority],
    ...(chosen.bestOfK === null ? [] : [[`most likely of ${samples}`, chosen.bestOfK] as const]),
    [RATE_TITLES.format, format],
    ...(lenientPassAtK === undefined
      ? []
      : ks.map((k) => [`pass@${k}, leniently`, lenientPassAtK[k]!] as const)),
  ];
}

/** What the verifier said of the first reply that has no verdict, whole where a table cuts it. */
function whyUndecided({ rows }: Failures): string {
  const first = rows.find(({ kind }) => kind === 'undecided');
  return first === undefined || first.why === ''
    ? ''
    : `: ${label(first.why, 300)}. \`tasks check\` tries the verifier`;
}

/** Policies of whose answers the verifier decided none, with what it said of one. */
function undecidedPolicies(
  judged: Readonly<Record<string, readonly Pick<Verdict, 'kind' | 'reason'>[]>>,
): string[] {
  const lost = Object.entries(judged).filter(
    ([, verdicts]) => verdicts.length > 0 && verdicts.every(({ kind }) => kind === 'none'),
  );
  if (lost.length === 0) return [];
  const names = lost.map(([policy]) => policy).join(', ');
  return [
    `The verifier decided no answer of ${names}: ${label(lost[0]![1][0]!.reason ?? 'it gave no reason', 300)}. \`tasks check\` tries it.`,
  ];
}

/** What is known of them. */
const countsOf = ({
  promptIds,
  promptTokens = promptIds?.length,
  tokenIds,
  tokens = tokenIds?.length,
}: Omit<Reply, 'finish'>) => ({
  promptTokens,
  tokens,
});

export const evalCommand = defineCommand({
  command: 'eval',
  describe: "Accuracy of a model, with or without an adapter, on a task's held-out problems",
  builder: (yargs) =>
    yargs
      .option('model', {
        type: 'string',
        requiresArg: true,
        describe: `path of a GGUF file, an alias, or an hf: URI; default: what the adapter was trained on, else ${EMBEDDED_MODEL}`,
      })
      .option('adapter', {
        type: 'string',
        requiresArg: true,
        describe:
          'LoRA adapter in GGUF, a run (folder or beginning of its id), or a name in the registry',
      })
      .option('registry', registryOption)
      .option('backend', {
        type: 'string',
        default: 'local',
        requiresArg: true,
        describe: 'who answers: local, the model, or recorded:FILE, a JSONL file of replies',
      })
      .option('task', taskOption)
      .options(askingFlags)
      .option('set', {
        choices: SET_NAMES,
        default: 'test' as SetName,
        describe: 'which held-out problems',
      })
      .option('per-tier', {
        type: 'number',
        describe: 'the first so many problems of each tier; default: all',
      })
      .option('style', {
        choices: PROMPT_STYLES,
        describe:
          "ask for reasoning before the answer, or for the answer alone; default: the run's",
      })
      .option('max-tokens', {
        type: 'number',
        describe: "tokens an answer; one that is cut off fails; default: the run's",
      })
      .option('samples', {
        type: 'number',
        default: 1,
        describe: '1: greedy; more: pass@k from so many samples',
      })
      .option('few-shot', {
        type: 'number',
        default: 0,
        describe:
          'solved examples of the same tier, others before each question: to compare with; --examples asks as a run does',
      })
      .option('constrained', {
        type: 'boolean',
        default: false,
        describe:
          "decode under the task's grammar of answers, which names nothing of a problem, so that the form cannot fail",
      })
      .option('forgetting', {
        type: 'boolean',
        default: false,
        describe:
          'no task: what model and adapter lost of held-out English, and how far they are from the base on general prompts',
      })
      .option('temperature', { type: 'number', describe: "of the samples; default: the run's" })
      .option('k', {
        type: 'string',
        requiresArg: true,
        describe: 'ks of pass@k, such as 1,4; default: 1 and all samples',
      })
      .option('seed', { type: 'string', default: '0', describe: '64-bit seed of the samples' })
      .option('turns', {
        type: 'number',
        describe:
          'replies of an episode, at most; default: as the task says. A task without turns of its own is asked again, with its feedback',
      })
      .option('verifier-threads', verifierThreadsOption)
      .option('threads', { type: 'number', describe: 'default: the physical cores; embedded: 1' })
      .option('matmul', { choices: MATMULS, describe: `${MATMUL_HELP}; default: the run's` })
      .option('context', {
        type: 'number',
        describe: "tokens of KV cache over all running answers; default: the run's",
      })
      .option('batch', { type: 'number', describe: "answers at once; default: the run's" })
      .option('out', {
        type: 'string',
        requiresArg: true,
        describe:
          'JSONL file for every prompt and reply with its verdict, which --backend recorded:FILE takes',
      })
      .example(
        '$0 eval --model qwen2.5-0.5b --per-tier 25',
        'greedy, on a prefix of the frozen test set',
      )
      .example('$0 eval --forgetting --model smollm2-135m --adapter adapter.gguf', 'what it cost')
      .example(
        '$0 eval --adapter runs/3f2a/adapters/9c0d.gguf --samples 8 --k 1,8',
        'pass@1 and pass@8 with an adapter',
      ),
  handler: async (argv) => {
    const recording = recordingOf(argv);
    const unnamed = argv.model === undefined && argv.adapter !== undefined;
    const modelName = await modelToLoad(
      argv.model,
      unnamed ? await nameAdapter(argv.adapter!, registryOf(argv)) : null,
    );
    if (argv.forgetting) return evalForgetting({ ...argv, model: modelName });
    const { set, json } = argv;
    const perTier = readCount('per-tier', argv.perTier ?? SET_SIZE[set], 1);
    const samples = readCount('samples', argv.samples, 1);
    const ks = readKs(argv.k, samples);
    const seed = readSeed(argv.seed);
    const signal = interruption();
    await using task = await openTask(argv.task, {
      ...openedWith(argv),
      ...(argv.turns === undefined ? {} : { turns: readCount('turns', argv.turns, 1) }),
    });
    const fewShot = readCount('few-shot', argv.fewShot, 0);
    const { answerGrammar: grammar } = task;
    if (argv.constrained && grammar === null)
      throw new IsoproError(
        'INVALID_ARGUMENT',
        `${task.id} has no grammar of answers, so that --constrained cannot be measured`,
      );
    const problems = await evaluationSet(task, set, perTier);
    for (const short of shortTiers(task, problems)) note(short);
    if (recording === null) note(cannotRead(modelName, argv.task));
    using progress = new Progress({ label: 'evaluating', unit: 'answers' });
    progress.begin(recording === null ? 'loading the model' : 'reading the recording');
    const settings =
      recording === null ? await runDefaults(modelName, signal) : resolveSettings({});
    const style = argv.style ?? settings.sampling.style;
    const maxTokens = readCount('max-tokens', argv.maxTokens ?? settings.sampling.maxTokens, 1);
    const temperature = argv.temperature ?? settings.sampling.temperature;
    const maxSequences = readCount('batch', argv.batch ?? settings.model.maxSequences, 1);
    const { backend, adapter, model } =
      recording === null
        ? await answerLocally({ ...argv, model: modelName }, loadingOf(settings), signal)
        : await answerFrom(recording);
    let out: FileHandle | undefined;
    let written = Promise.resolve();
    let failure: IsoproError | undefined;
    const fail = (cause: unknown): void => {
      failure ??= new IsoproError(
        'WRITE_FAILED',
        `${argv.out} could not be written: ${(cause as Error).message}`,
        { cause },
      );
    };
    try {
      out =
        argv.out === undefined
          ? undefined
          : await open(argv.out, 'w').catch((cause: unknown) => void fail(cause));
      if (failure !== undefined) throw failure;
      const started = performance.now();
      const options: EvaluationOptions = {
        style,
        adapter,
        signal,
        lenient: true,
        ...(fewShot === 0 ? {} : { fewShot: { count: fewShot, seed } }),
        ...(argv.constrained ? { grammar: grammar! } : {}),
        maxTokens,
        maxSequences,
        endUndecided: true,
        onProgress: ({ done, total }) => progress.update(done, { total }),
        onReply: ({ problem, messages, rollout, judgement }) => {
          if (failure !== undefined) throw failure; // not only after hours
          const row = {
            id: problem.id,
            tier: problem.tier,
            sampleIndex: rollout.sampleIndex,
            prompt: { messages },
            text: rollout.text,
            finish: rollout.finish,
            ...countsOf(rollout),
            ...judgement.verdict,
            failure: failureOf(reasonOf(judgement, rollout.finish)),
          };
          written = written.then(() => out?.appendFile(`${JSON.stringify(row)}\n`)).catch(fail);
        },
      };
      const greedy =
        samples === 1 ? await evaluateGreedy(backend, task, problems.problems, options) : null;
      const sampled =
        samples === 1
          ? null
          : await evaluatePassAtK(backend, task, problems.problems, {
              ...options,
              samples,
              temperature,
              seed,
              ks,
            });
      await written;
      if (failure !== undefined) throw failure;
      progress.clear();
      const seconds = (performance.now() - started) / 1000;
      const judged = await judgePolicies(task, problems.problems, { signal });
      const figures = figuresGiven([...(greedy?.outcomes ?? []), ...Object.values(judged).flat()]);
      const policies = summarisePolicies(judged, problems.problems, task.tiers, figures);
      const accuracy =
        greedy === null
          ? null
          : summarise(greedy.outcomes, task.tiers, { seed: SUMMARY_SEED, figures });
      const { promptTokens, sampledTokens, failures } = (greedy ?? sampled)!;
      const report = {
        backend: { ...backend.identity, sha256: (await backend.digest?.()) ?? null },
        model,
        adapter: adapter === null ? null : { path: adapter.path, sha256: adapter.id },
        task: { id: task.id, version: task.version },
        set: {
          name: set,
          origin: problems.origin,
          perTier,
          problems: problems.problems.length,
          sha256: problems.sha256,
        },
        style,
        ...(recording === null ? { maxTokens } : {}),
        fewShot,
        constrained: argv.constrained,
        samples,
        ...(greedy === null
          ? {
              ...(recording === null ? { temperature, seed: argv.seed } : {}),
              passAtK: sampled!.passAtK,
              ...(sampled!.lenientPassAtK === undefined
                ? {}
                : { lenientPassAtK: sampled!.lenientPassAtK }),
              format: sampled!.format,
              ...sampled!.chosen,
              none: sampled!.none,
              ...(sampled!.measures === undefined ? {} : { measures: sampled!.measures }),
            }
          : { accuracy }),
        failures,
        trivialPolicies: policies,
        policyNotes: task.policyNotes,
        promptTokens,
        sampledTokens,
        seconds,
      };
      if (json) return printJson(report);
      const rows: (readonly [string, Row])[] = [
        ...(greedy === null
          ? sampledRows(sampled!, ks, samples)
          : [
              [recording === null ? 'greedy' : 'recorded', accuracy!] as const,
              ...READINGS.flatMap((reading) =>
                accuracy![reading] === undefined
                  ? []
                  : [[RATE_TITLES[reading], accuracy![reading]] as const],
              ),
            ]),
        ...Object.entries(policies),
      ];
      const readings = READINGS.filter((reading) =>
        reading === 'format'
          ? true
          : greedy === null
            ? sampled!.lenientPassAtK !== undefined
            : accuracy![reading] !== undefined,
      );
      const measured = [
        [
          greedy === null ? `${samples} samples` : rows[0]![0],
          (accuracy ?? sampled)!.measures,
        ] as const,
        ...Object.entries(policies).map(([policy, summary]) => [policy, summary.measures] as const),
      ];
      const none = greedy?.summary.none ?? sampled!.none;
      const notes = Object.entries(task.policyNotes);
      const [best] = Object.entries(policies).sort(([, a], [, b]) => (b.mean ?? 0) - (a.mean ?? 0));
      const cause = commonestFailure(failures)?.kind;
      const unread =
        recording === null &&
        2 * failures.passed < failures.replies &&
        cause !== undefined &&
        ['format', 'truncated', 'context'].includes(cause);
      const asked = {
        ...settings.sampling,
        style,
        maxTokens,
        samples,
        ...(argv.examples === undefined ? {} : { examples: argv.examples }),
      };
      const advice = [
        ...(best !== undefined &&
        accuracy?.mean != null &&
        best[1].mean !== null &&
        best[1].mean >= accuracy.mean
          ? [
              `A program without a model (${best[0]}) solves ${percent(best[1].mean)}, and these replies ${percent(accuracy.mean)}.`,
            ]
          : []),
        ...(unread
          ? [
              nothingAccepted(
                failures,
                {},
                howAsked({
                  model: { ...settings.model, name: modelName },
                  task: argv.task,
                  sampling: asked,
                }),
              ),
            ]
          : []),
        ...undecidedPolicies(judged),
      ];
      const terminal = terminalStyle(process.stdout);
      print(
        `${wrapped(
          `${task.id} ${task.version}, ${set} set, ${problems.problems.length} ` +
            `problems${adapter === null ? '' : `, adapter ${adapter.id.slice(0, 12)}`}` +
            `${fewShot === 0 ? '' : `, ${fewShot} examples before each`}` +
            `${argv.constrained ? ', under the grammar of answers' : ''}` +
            `${recording === null ? `, style ${style}, at most ${maxTokens} tokens a reply` : ''}; per cent solved, 95 % interval below`,
          terminal,
        )}\n\n${table(rows, terminal)}\n\n${measureTables(measured, terminal)}` +
          `${readings.map((reading) => wrapped(RATE_NOTES[reading], terminal, 2)).join('\n')}\n` +
          (samples > 1
            ? `${samples} samples a problem${recording === null ? ` at temperature ${temperature}` : ''}; pass@k is a ceiling: ` +
              `choosing the right one needs the verifier\n`
            : '') +
          (failures.rows.length > 0 ? `\n${failureTable(failures, 'answers', terminal)}\n\n` : '') +
          advice.map((text) => `${wrapped(text, terminal)}\n`).join('') +
          (none > 0
            ? `${none} ${none === 1 ? 'verdict' : 'verdicts'} could not be found; they are in no ` +
              `denominator${greedy?.summary.valid === false ? ', and the figures are no result' : ''}${whyUndecided(failures)}\n`
            : '') +
          (sampledTokens === null
            ? ''
            : `${sampledTokens} tokens ${recording === null ? 'sampled' : 'judged'} in ${formatDuration(seconds)}\n`) +
          (notes.length > 0
            ? `\n${notes.map(([name, note]) => wrapped(`${name}: ${note}`, terminal, 2)).join('\n')}\n`
            : ''),
      );
    } finally {
      await out?.close();
      adapter?.dispose();
      await backend.dispose();
    }
  },
});
