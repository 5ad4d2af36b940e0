/**
 * The tables of a folder of results that `npm run measure:real` left: one file a step
 * (real-experiments.mjs), and summary.json.
 */
import { flagsInUse } from '../dist/src/operations/run-settings.js';
import { resolveSettings } from '../dist/src/training/settings.js';
import { CONTROLS, minutesOf, PRACTICAL, realSteps } from './real-experiments.mjs';
import { table } from './table.mjs';

/** Names of the steps whose files stand in such a folder. */
export const realStepNames = () => realSteps().map(({ name }) => name);

const runsOf = (files, task) =>
  Object.entries(files).flatMap(([name, file]) => {
    const [, condition, seed] =
      new RegExp(`^${task}-(full|${Object.values(CONTROLS).join('|')})-(\\d+)$`).exec(name) ?? [];
    return condition === undefined ? [] : [{ condition, seed, file, ...file.run }];
  });

/**
 * Nats a token that the submitted adapter loses, and where it has less of its strength, that and
 * what the whole one loses.
 */
function forgotten(nats, restraint) {
  if (nats === undefined) return '–';
  if (restraint == null || restraint.strength === 1) return nats.toFixed(4);
  return `${nats.toFixed(4)} with ${restraint.strength} (${restraint.tried[0].lost.toFixed(4)})`;
}

/** Of the machine, of one run, or of what is measured beside it. */
const NOT_OF_THE_RUN = [
  'model',
  'threads',
  'matmul',
  'task',
  'seed',
  'turns',
  'forgetting',
  'constrained',
];

/** Flags of the full runs that are other than the profile's, as the manifests have them. */
function flagsOf(files) {
  const runs = PRACTICAL.flatMap((task) => runsOf(files, task)).filter(
    ({ condition }) => condition === 'full',
  );
  const lines = runs.map(({ file: { settings } }) => {
    const own = new Map(
      flagsInUse(
        resolveSettings({
          profile: settings.profile,
          task: settings.task,
          model: { name: settings.model.name },
        }),
      ),
    );
    return flagsInUse(settings)
      .filter(
        ([flag, value]) =>
          !NOT_OF_THE_RUN.includes(flag) && String(own.get(flag)) !== String(value),
      )
      .map(([flag, value]) => `--${flag} ${value}`)
      .join(' ');
  });
  return [...new Set(lines)].map((line) => `\`${line}\``).join(' or ');
}

const quantisationsOf = (files) =>
  [...new Set(Object.values(files).flatMap(({ model }) => model.quantisation ?? []))].join(', ');

/** What README shows of it: practical tasks with a seed at least; null where there is none yet. */
export function realMainTable({ summary, files }, { percent, pValue }) {
  const tasks = PRACTICAL.flatMap((task) =>
    summary.tasks[task]?.seeds?.length > 0 ? [[task, summary.tasks[task]]] : [],
  );
  if (tasks.length === 0) return null;
  const range = (values, write) =>
    [...new Set([Math.min(...values), Math.max(...values)].map(write))].join('–');
  const change = (changes, strong = '') =>
    changes.every((each) => each !== undefined)
      ? `${range(
          changes.map(({ before }) => before),
          percent,
        )} → ${strong}${range(
          changes.map(({ after }) => after),
          percent,
        )}${strong}`
      : '–';
  const rows = tasks.map(([task, { seeds, fewShot, bestOfK }]) => [
    `\`${task}\``,
    seeds.length,
    change(seeds, '**'),
    pValue(Math.max(...seeds.map(({ pairedP }) => pairedP))),
    change(seeds.map(({ lenient }) => lenient)),
    change(seeds.map(({ constrained }) => constrained)),
    percent(fewShot),
    percent(bestOfK),
  ]);
  const [[task, { seeds }]] = tasks;
  return [
    `SmolLM2-135M-Instruct (${quantisationsOf(files)}) solves ${range(
      seeds.map(({ before }) => before),
      percent,
    )} % of \`${task}\` before training and **${range(
      seeds.map(({ after }) => after),
      percent,
    )} %** after it.\n` + `All runs used ${flagsOf(files)}.`,
    table(['', 'seeds', 'solved', 'p', 'any form', 'form given', '3 examples', 'best of 8'], rows),
  ].join('\n\n');
}

/** Where the time of full runs went. */
function stagesText(runs, { whole }) {
  const total = (iterations, read) =>
    iterations.reduce((sum, iteration) => sum + read(iteration), 0);
  const minutes = (seconds) => (seconds / 60).toFixed(1);
  return [
    'Where the time went, in minutes: sampling and judging, training, the dev evaluations, and everything else (test evaluations with ' +
      'and without a grammar, forgetting, loading). Tokens/s: of replies sampled, and of replies trained on together ' +
      'with their prompts, over ' +
      'the time of their stage.',
    table(
      [
        'full run',
        'processor',
        'sampling',
        'training',
        'dev',
        'the rest',
        'tokens sampled',
        'trained',
        'sampled/s',
        'trained/s',
        'MB',
      ],
      runs.map(({ task, seed, file, iterations, seconds, peakRssBytes }) => {
        const stages = ['rollouts', 'training', 'evaluation'].map((stage) =>
          total(iterations, (each) => each.seconds[stage]),
        );
        const [sampling, training, dev] = stages;
        const [sampled, trained] = ['sampled', 'trained'].map((kind) =>
          total(iterations, ({ tokens }) => tokens[kind]),
        );
        return [
          `\`${task}\`, seed ${seed}`,
          file.machine.processor,
          ...[sampling, training, dev, seconds - sampling - training - dev].map(minutes),
          whole(sampled),
          whole(trained),
          (sampled / sampling).toFixed(0),
          (trained / training).toFixed(1),
          whole(peakRssBytes / 1e6),
        ];
      }),
    ),
  ];
}

/** By the figures' own way of being written (src/text/figures.ts). */
export function realTables(name, { summary, files }, figures) {
  const { percent, pValue, bounds, whole } = figures;
  const measured = (part) => (part == null ? '–' : `${percent(part.mean)} (${bounds(part)})`);
  const both = (change) =>
    change === undefined ? '–' : `${percent(change.before)} → ${percent(change.after)}`;
  const [first] = Object.values(files);
  const machines = new Set(
    Object.values(files).map(({ machine }) => `${machine.processor}, ${machine.cores} cores`),
  );
  const parts = [
    `SmolLM2-135M-Instruct (SHA-256 ${first.model.sha256.slice(0, 12)}…) on ${[...machines].join(' and ')}. ` +
      'Per cent of the frozen test problems, greedy, with 95 % intervals; the mean counts each tier once. p is the exact paired test of ' +
      'that mean over the same problems, McNemar’s where all problems weigh alike. Read leniently: any answer found anywhere in the ' +
      'reply passes. Form given: decoded under a grammar of ' +
      'the answer’s form, which names nothing of the problem. Forgetting: nats a token lost on English that was never trained on; where ' +
      'a limit left the adapter less of its strength, that, and what the whole one loses. ' +
      `Minutes: of the iterations with their dev evaluations. Runs of the profile \`small\` with ${flagsOf(files)}, weights in ` +
      `${quantisationsOf(files)}. Written by \`npm run docs:results\` from \`results/${name}/\`.`,
  ];
  for (const task of PRACTICAL) {
    const of = summary.tasks[task];
    const runs = runsOf(files, task);
    const full = runs.filter(({ condition }) => condition === 'full');
    if (full.length > 0) {
      parts.push(
        `\`${task}\``,
        table(
          [
            'full run',
            'before',
            'after',
            'p',
            'read leniently',
            'form given',
            'well-formed',
            'forgetting',
            'minutes',
            'peak memory, MB',
          ],
          of.seeds.map((seed) => {
            const { test, peakRssBytes, restraint } = full.find((run) => run.seed === seed.seed);
            return [
              `seed ${seed.seed}`,
              measured(test.before),
              measured(test.after),
              pValue(seed.pairedP),
              both(seed.lenient),
              both(seed.constrained),
              both(seed.format),
              forgotten(seed.forgettingNats, restraint),
              seed.minutes.toFixed(0),
              whole(peakRssBytes / 1e6),
            ];
          }),
        ),
        ...full.map(({ seed, test: { before, after } }) =>
          [
            `By tier, seed ${seed}.`,
            table(
              ['tier', 'n', 'before', 'after'],
              Object.keys(before.byTier).map((tier) => [
                tier,
                before.byTier[tier].n,
                measured(before.byTier[tier]),
                measured(after.byTier[tier]),
              ]),
            ),
          ].join('\n\n'),
        ),
      );
    }
    const controls = runs.filter(({ condition }) => condition !== 'full');
    const samples = files[`${task}-samples`]?.evaluation;
    const others = [
      ...controls.map(({ condition, seed, test, restraint }) => [
        `control \`${condition}\`, seed ${seed}${(restraint?.strength ?? 1) < 1 ? `, with ${restraint.strength} of its strength` : ''}`,
        measured(test.after),
      ]),
      ...(files[`${task}-few-shot`] === undefined
        ? []
        : [
            [
              'the base model with 3 solved examples',
              measured(files[`${task}-few-shot`].evaluation.accuracy),
            ],
          ]),
      ...(samples === undefined
        ? []
        : [
            ['its likeliest of 8', measured(samples.bestOfK)],
            ['its commonest answer of 8', measured(samples.majority)],
          ]),
    ];
    if (others.length > 0)
      parts.push(table([`\`${task}\`, next to the full run`, 'solved'], others));
    const after = Object.entries(files).filter(([step]) =>
      new RegExp(`^${task}-samples(-\\d+)?$`).test(step),
    );
    if (after.length > 0) {
      const ks = Object.keys(after[0][1].evaluation.passAtK);
      parts.push(
        table(
          [`\`${task}\`, samples`, ...ks.map((k) => `pass@${k}`)],
          after.map(([step, { evaluation }]) => [
            step === `${task}-samples` ? 'before' : `after, seed ${step.split('-').at(-1)}`,
            ...ks.map((k) => measured(evaluation.passAtK[k])),
          ]),
        ),
      );
    }
  }
  const timed = PRACTICAL.flatMap((task) =>
    runsOf(files, task).map((run) => ({ task, ...run })),
  ).filter(({ condition }) => condition === 'full');
  if (timed.length > 0) parts.push(...stagesText(timed, figures));
  const elsewhere = Object.entries(files).filter(([step]) => /-full-\d+-on-/.test(step));
  if (elsewhere.length > 0)
    parts.push(
      table(
        ['trained on', 'measured on', 'before', 'after'],
        elsewhere.map(([step, { task, evaluation }]) => [
          `\`${step.split('-full-')[0]}\``,
          `\`${task}\``,
          // by the same kernels
          measured(files[`${task}-full-${/-full-(\d+)-on-/.exec(step)[1]}`]?.run.test.before),
          measured(evaluation.accuracy),
        ]),
      ),
    );
  const further = Object.entries(files).filter(
    ([step, { run }]) =>
      run !== undefined &&
      !step.startsWith('search-') &&
      !PRACTICAL.some((task) => step.startsWith(`${task}-`)),
  );
  if (further.length > 0)
    parts.push(
      table(
        ['further task', 'before', 'after', 'p', 'minutes'],
        further.map(([step, { run }]) => [
          `\`${step.replace(/-full-\d+$/, '')}\``,
          measured(run.test.before),
          measured(run.test.after),
          pValue(run.test.pairedP),
          minutesOf(run).toFixed(0),
        ]),
      ),
    );
  const search = Object.entries(files).filter(([step]) => step.startsWith('search-'));
  if (search.length > 0)
    parts.push(
      'What each choice of the profile is worth: runs of three iterations on `extract`, each with one thing changed, by the best ' +
        'dev accuracy that one of their iterations reached, and by what their last adapter forgot.',
      table(
        [
          'change',
          'iterations',
          'best dev',
          'forgetting',
          'tokens sampled',
          'minutes',
          'peak memory, MB',
        ],
        search.map(([step, { run }]) => [
          step.slice('search-'.length),
          run.iterations.length,
          measured(
            run.iterations
              .map(({ dev }) => dev)
              .reduce((best, dev) => ((dev.mean ?? 0) > (best.mean ?? 0) ? dev : best)),
          ),
          run.forgetting?.lost.mean.toFixed(4) ?? '–',
          whole(run.iterations.reduce((sum, { tokens }) => sum + tokens.sampled, 0)),
          minutesOf(run).toFixed(0),
          whole(run.peakRssBytes / 1e6),
        ]),
      ),
    );
  return parts.join('\n\n');
}
