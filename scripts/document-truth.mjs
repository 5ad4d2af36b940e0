// `npm run docs:truth`: writes the tables of results/truth/README.md and the few figures of
// docs/truth-results.md, between their marks, from the files that `npm run measure:truth` left in
// results/truth.
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { specText } from '../dist/src/report/setup-text.js';
import { slopeWithoutNoiseIn } from '../dist/src/truth-seeking/analysis/slope-without-noise.js';
import { holm } from '../dist/src/statistics/index.js';
import { betweenMarks } from './between-marks.mjs';
import { resultsOf, root } from './experiment.mjs';
import { table } from './table.mjs';
import { truthSteps } from './truth-experiments.mjs';

/** The pages that hold results, and whether in brief. */
export const PAGES = { 'results/truth/README.md': false, 'docs/truth-results.md': true };
const FOLDER = path.join(root, 'results', 'truth');

const figure = (value) => {
  if (value === null) return '–';
  const rounded = Number(value.toFixed(3));
  return `${rounded < 0 ? '−' : ''}${Math.abs(rounded).toFixed(3)}`;
};
const within = (value, interval) =>
  interval === null || value === null
    ? figure(value)
    : `${figure(value)} (${interval.low === null ? '−∞' : figure(interval.low)} to ` +
      `${interval.high === null ? '∞' : figure(interval.high)})`;
const unique = (values) => [...new Set(values)];
const asked = ({ systemPrompt, mode }) => `${systemPrompt}, ${specText(mode)}`;
/** Whose beliefs a score is of, where a model's results are of several. */
const SOURCES = {
  logprob: 'beliefs read',
  judge: 'said by a judge',
  self: 'said by itself',
  stated: 'stated',
};
const readBy = ({ reader }, areSeveral) =>
  areSeveral && reader ? `, ${SOURCES[reader.source]}, system prompt ${reader.beliefSystem}` : '';

const DIRECTIONS = {
  lower: 'lower is better',
  higher: 'higher is better',
  zero: 'nearer to 0 is better',
};

/** One table a strategy: domains by setups. Of what no setup has a value for, the reasons. */
function strategyTable(strategy, results, note = '') {
  const of = results.filter((result) => result.strategy === strategy);
  const areSeveral = unique(of.map(({ reader }) => JSON.stringify(reader ?? null))).length > 1;
  const columnOf = (result) => `${asked(result.setup)}${readBy(result, areSeveral)}`;
  const setups = unique(of.map(columnOf));
  const reasons = unique(of.flatMap(({ skipped }) => Object.keys(skipped))).sort();
  const head = `\`${strategy}\`${note} (${DIRECTIONS[of[0].direction]})`;
  if (of.every(({ value }) => value === null))
    return `${head}: nothing to say: ${reasons.join('; ')}.`;
  const rows = unique(of.map(({ setup }) => setup.domain)).map((domain) => [
    domain,
    ...setups.map((setup) => {
      const found = of.find((each) => each.setup.domain === domain && columnOf(each) === setup);
      return found === undefined || found.value === null
        ? '–'
        : `${within(found.value, found.interval)}, ${found.n}`;
    }),
  ]);
  return [head, table(['domain', ...setups], rows)].join('\n\n');
}

function modelTables(model, runs) {
  const [{ settings, machine, predictor }] = runs;
  const results = runs.flatMap((run) => run.results);
  const trajectories = runs.reduce((sum, { run }) => sum + run.trajectories, 0);
  return [
    `## \`${model}\``,
    `${trajectories} trajectories on ${machine.processor}: at most ${settings.problems} held-out problems of each domain, ` +
      `${settings.maxTokens} tokens a reply, seed ${settings.seed}, beliefs read from log-probabilities` +
      `${predictor === null ? '' : `; answers and outcomes are predicted by \`${predictor}\``}; rated by the model itself, bound to ` +
      'the form of a verdict. Slopes also without noise, which is what differs between wordings. Value (95 % interval), problems; ' +
      '– where there is none.',
    ...unique(results.map(({ strategy }) => strategy)).flatMap((strategy) => {
      const slopes = results.flatMap((each) => {
        const found = each.strategy === strategy ? slopeWithoutNoiseIn(each) : null;
        return found === null ? [] : [{ ...each, ...found }];
      });
      return [
        strategyTable(strategy, results),
        ...(slopes.length === 0 ? [] : [strategyTable(strategy, slopes, ', without noise')]),
      ];
    }),
  ].join('\n\n');
}

/** Files of before the slope had its correction call the one with noise by its name alone. */
const NAMES = { slope: 'slope with noise' };

/** What is measured before is the same of seeds that share a processor and its kernels. */
const rangeOf = (values) =>
  unique(
    [Math.min(...values), Math.max(...values)].map((value) =>
      figure(values.includes(null) ? null : value),
    ),
  ).join(' to ');

/** Before and after of each training, a column a seed. p of all of them are one family. */
function trainingTables(trained) {
  const changes = trained.flatMap((run) => run.changes);
  const tested = changes.filter(({ p }) => p !== null);
  const adjusted = new Map(holm(tested.map(({ p }) => p)).map((p, i) => [tested[i], p]));
  const runs = trained.map((run) => ({
    ...run,
    changes: run.changes.map((each) => ({
      ...each,
      figure: NAMES[each.figure] ?? each.figure,
      adjusted: adjusted.get(each),
    })),
  }));
  const [{ model, settings }] = runs;
  const processors = unique(runs.map(({ machine }) => machine.processor)).map(
    (processor) =>
      `${processor} (${runs
        .filter(({ machine }) => machine.processor === processor)
        .map((run) => run.settings.seed)
        .join(', ')})`,
  );
  const seeds = runs.map(({ settings: { seed } }) => seed);
  const figures = [
    ...new Map(
      runs
        .flatMap((run) => run.changes)
        .map(({ domain, figure: name }) => [`${domain} ${name}`, { domain, name }]),
    ).values(),
  ];
  const changeOf = ({ changes: own }, { domain, name }) =>
    own.find((each) => each.domain === domain && each.figure === name);
  return [
    `## Trained by 1 − Brier`,
    `\`${model}\` on ${processors.join(' and ')}, by the seed: ${settings.steps} steps of ${settings.questions} questions x ` +
      `${settings.group} replies of at most ${settings.maxTokens} tokens, reward 1 − Brier of the belief read after each; ` +
      `${settings.measure} held-out questions of each ` +
      'domain before and after, asked by users with opinions too. After less before (95 % interval, paired over problems); p of means, ' +
      `adjusted by Holm's method over all ${tested.length} of this section, so that in 95 of 100 such sections none is below .05 by ` +
      'chance. Intervals are not adjusted. The slope with noise moves where wordings come to agree; the one without does not, and is – ' +
      'where the beliefs that changes start from vary by nothing but wordings.',
    ...unique(figures.map(({ domain }) => domain)).map((domain) =>
      table(
        [domain, 'before', ...seeds.map((seed) => `change, seed ${seed}`)],
        figures
          .filter((each) => each.domain === domain)
          .map((each) => [
            each.name,
            rangeOf(runs.map((run) => changeOf(run, each)?.before ?? null)),
            ...runs.map((run) => {
              const { difference = null, interval = null, adjusted: p } = changeOf(run, each) ?? {};
              return `${within(difference, interval)}${p === undefined ? '' : `, p ${p.toFixed(4)}`}`;
            }),
          ]),
      ),
    ),
  ].join('\n\n');
}

/** How a slope and its correction do on reasoners whose slope is known. */
function oracleTables({ settings, studies }) {
  const { samples, wordings, draws, noise, seed } = settings;
  const slope = ({ mean, coverage, detected }, truth) => [
    figure(mean - truth),
    figure(coverage),
    figure(detected),
  ];
  const groups = unique(
    studies.map(({ reasoner, trajectories }) => `${reasoner}, ${trajectories}`),
  ).map((name) =>
    studies.filter(({ reasoner, trajectories }) => `${reasoner}, ${trajectories}` === name),
  );
  return [
    '## The urn oracle',
    `Reasoners whose beliefs are known by calculation draw ${draws} balls a trajectory; each belief is measured by ${wordings} wordings ` +
      `with noise of standard deviation ${noise}: an offset of each wording, what lasts over a trajectory, what is fresh at each ` +
      `belief, or all three. ${samples} samples of each (seed ${seed}; \`truth oracle\`). Bias is the mean estimate less the true ` +
      'slope; coverage the part of the 95 % intervals that hold the true slope, of those that have bounds; of a reasoner whose slope ' +
      'is 0, "not 0" is the rate of false alarms (.05 is meant), else the power. Movement: mean of the squared changes less the ' +
      'reduction of uncertainty, without noise; 0 of a Bayesian.',
    ...groups.map((own) => {
      const [{ reasoner, trajectories, slope: truth }] = own;
      const rows = own.map(({ noise: kind, plain, corrected, excess }) => [
        kind,
        ...slope(plain, truth),
        ...(corrected === null
          ? ['–', '–', '–', '–']
          : [...slope(corrected, truth), corrected.unbounded]),
        excess === null ? '–' : figure(excess.mean),
      ]);
      const heads = ['bias', 'coverage', 'not 0'];
      return [
        `${reasoner}, true slope ${figure(truth)}, ${trajectories} trajectories`,
        table(
          [
            'noise',
            ...heads,
            ...heads.map((head) => `${head}, corrected`),
            'no bounds',
            'movement',
          ],
          rows,
        ),
      ].join('\n\n');
    }),
  ].join('\n\n');
}

/** The oracle at its most trajectories, under all kinds of noise at once. */
function oracleSummary({ settings, studies }) {
  const most = Math.max(...studies.map(({ trajectories }) => trajectories));
  const shown = studies.filter(
    ({ noise, trajectories, corrected }) =>
      noise === 'all' && trajectories === most && corrected !== null,
  );
  return [
    '## Does the estimate find a slope that is known?',
    'The urn oracle simulates reasoners whose beliefs are known by calculation.\n' +
      `Each row is one reasoner with ${settings.samples} estimates of its slope.\n` +
      `Each estimate is from ${most} trajectories with noise of standard deviation ` +
      `${settings.noise}.\n` +
      'Bias is the mean estimate less the true slope.\n' +
      'Coverage is the share of the 95 % intervals that hold the true slope.',
    table(
      ['reasoner', 'true slope', 'bias', 'coverage', 'bias, corrected', 'coverage, corrected'],
      shown.map(({ reasoner, slope, plain, corrected }) => [
        reasoner,
        ...[slope, plain.mean - slope, plain.coverage].map(figure),
        ...[corrected.mean - slope, corrected.coverage].map(figure),
      ]),
    ),
  ].join('\n\n');
}

const BRIER = 'accuracy:metric=brier,mode';
const SHOWN = { mode: 'chain-of-thought:steps=8', systemPrompt: 'critical' };

/** What one mode of reasoning does to the Brier score, a column a model. */
function reasoningSummary(runs) {
  const models = unique(runs.map(({ model }) => model));
  const shown = runs.flatMap(({ model, results }) =>
    results
      .filter(
        ({ strategy, setup, reader, value }) =>
          strategy === `${BRIER}=difference` &&
          setup.mode === SHOWN.mode &&
          setup.systemPrompt === SHOWN.systemPrompt &&
          (reader ?? null)?.source === 'logprob' &&
          value !== null,
      )
      .map((result) => ({ ...result, model })),
  );
  return [
    '## Does reasoning improve beliefs?',
    'Brier score of the belief after reasoning less the score before.\n' +
      'A negative value is an improvement.\n' +
      `The table shows one mode and one prompt: ${specText(SHOWN.mode)}, ` +
      `the ${SHOWN.systemPrompt} prompt.\n` +
      'Each cell has the value, its 95 % interval and the number of problems.',
    table(
      ['domain', ...models.map((model) => `\`${model}\``)],
      unique(shown.map(({ setup }) => setup.domain)).map((domain) => [
        domain,
        ...models.map((model) => {
          const found = shown.find((each) => each.setup.domain === domain && each.model === model);
          return found === undefined ? '–' : `${within(found.value, found.interval)}, ${found.n}`;
        }),
      ]),
    ),
  ].join('\n\n');
}

/** What training by 1 − Brier does to the Brier score of the belief after reasoning. */
function trainingSummary(trained) {
  const [{ model }] = trained;
  const changes = trained.map((run) =>
    run.changes.filter(({ figure: name }) => name === `${BRIER}=eventual`),
  );
  return [
    '## Does training by 1 − Brier help?',
    `Brier score of \`${model}\` on held-out questions after training less the score before.\n` +
      'A negative value is an improvement.\n' +
      'Each cell has the value and its 95 % interval.',
    table(
      ['domain', ...trained.map(({ settings }) => `seed ${settings.seed}`)],
      changes[0].map(({ domain }) => [
        domain,
        ...changes.map((own) => {
          const { difference, interval } = own.find((each) => each.domain === domain);
          return within(difference, interval);
        }),
      ]),
    ),
  ].join('\n\n');
}

/** @param files results of steps by name */
export function truthText(files, { brief = false } = {}) {
  const all = Object.values(files);
  const runs = all.filter(({ run }) => run !== undefined);
  const trained = all.filter(({ changes }) => changes !== undefined);
  const oracles = all.filter(({ studies }) => studies !== undefined);
  if (brief)
    return [
      ...oracles.map(oracleSummary),
      ...(runs.length === 0 ? [] : [reasoningSummary(runs)]),
      ...(trained.length === 0 ? [] : [trainingSummary(trained)]),
    ].join('\n\n');
  return [
    ...oracles.map(oracleTables),
    ...unique(runs.map(({ model }) => model)).map((model) =>
      modelTables(
        model,
        runs.filter((run) => run.model === model),
      ),
    ),
    ...(trained.length === 0 ? [] : [trainingTables(trained)]),
  ].join('\n\n');
}

export const readTruthResults = () =>
  existsSync(FOLDER) ? resultsOf(truthSteps(), (name) => path.join(FOLDER, `${name}.json`)) : {};
export const withTruth = (page, content) => betweenMarks(page, 'truth', content);

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const files = readTruthResults();
  for (const [name, brief] of Object.entries(PAGES)) {
    const page = path.join(root, name);
    writeFileSync(page, withTruth(readFileSync(page, 'utf8'), truthText(files, { brief })));
  }
}
