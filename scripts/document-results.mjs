// `npm run docs:results`: writes the tables of docs/results.md, and the main figures of them into
// README.md, between their marks, from the files in results/. A folder there holds what was
// measured with one model: `ablation.json` as `isopro-native ablate` left it, `modes-<seed>.json`
// as `isopro-native run --mode all` left it in its run folder (comparison.json); or one file a step
// and `summary.json`, as `npm run measure:real` left them.
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { betweenMarks } from './between-marks.mjs';
import { harnessText, readHarness, withHarness } from './document-harness.mjs';
import { realMainTable, realStepNames, realTables } from './document-real.mjs';
import { table } from './table.mjs';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));

const minutes = (seconds) => (seconds / 60).toFixed(1);

const measuredBy =
  ({ percent, bounds }) =>
  (part) =>
    part === undefined ? '–' : `${percent(part.mean)} (${bounds(part)})`;
const methodOf = (each, method) => each.methods.find((candidate) => candidate.method === method);

/** What README shows of an embedded model, where no language model was measured. */
function mainTable({ ablation }, { percent }) {
  const { model, task, seeds, conditions } = ablation;
  const runs = (name) => conditions.find(({ condition }) => condition === name)?.runs;
  const [full, control] = [runs('full'), runs('shuffled-verdicts')];
  const shown = (of) => of.map((run) => percent(run.mean));
  const unmoved =
    control === undefined
      ? ''
      : `; trained on shuffled verdicts ${[...new Set(shown(control.map(({ after }) => after)))].join(', ')}`;
  const rows = [
    ['before', ...shown(full.map(({ before }) => before))],
    ['after', ...shown(full.map(({ after }) => after)).map((value) => `**${value}**`)],
  ];
  return [
    `\`${model}\` on \`${task}\`, per cent of ${full[0].before.n}${unmoved}:`,
    table(['', ...seeds.map((seed) => `seed ${seed}`)], rows),
  ].join('\n\n');
}

const machineOf = ({ platform, arch, kernels, version }) =>
  kernels === 'own' ? `own kernels (bits of version ${version}) on ${arch}` : `${platform} ${arch}`;

/**
 * The tables of one folder of results, by the figures' own way of being written
 * (src/text/figures.ts).
 */
function folderTables(name, { ablation, modes }, figures) {
  const { percent, points, pValue, whole } = figures;
  const measured = measuredBy(figures);
  const spread = ({ low, high }) => `${points(low)} to ${points(high)}`;
  const {
    task,
    model,
    modelSha256,
    code,
    machine,
    untrained,
    trivialPolicies,
    seeds,
    conditions,
    embedded,
  } = ablation;
  const full = conditions.find(({ condition }) => condition === 'full');
  const tiers = Object.keys(full.runs[0].paired.byTier);
  const seedHeads = seeds.map((seed) => `seed ${seed}`);
  const parts = [
    `Model \`${model}\` (SHA-256 ${modelSha256.slice(0, 12)}…) on \`${task}\`, version ${code.version}, ` +
      `${machineOf(machine)}, ${machine.threads} thread${machine.threads === 1 ? '' : 's'}. Per cent of ${full.runs[0].before.n} frozen ` +
      `test problems solved` +
      ` greedily, with 95 % intervals; the mean counts each tier once and a group of tiers as one. p is the exact paired test of ` +
      `that mean over the same problems, McNemar’s where all problems weigh alike, each counting once. ` +
      `Written by \`npm run docs:results\` from \`results/${name}/\`.`,
    table(
      [
        'full run',
        'before',
        'after',
        'change',
        'gained',
        'lost',
        'p',
        'minutes',
        'tokens sampled',
        'trained on',
        'peak memory, MB',
      ],
      full.runs.map(({ seed, before, after, paired, seconds, tokens, peakRssBytes }) => [
        `seed ${seed}`,
        measured(before),
        measured(after),
        points(paired.difference?.mean),
        paired.gained,
        paired.lost,
        pValue(paired.p),
        minutes(seconds),
        whole(tokens.sampled),
        whole(tokens.trained),
        whole(peakRssBytes / 1e6),
      ]),
    ),
    ...full.runs.flatMap(({ seed, before, after, paired }) => [
      `Seed ${seed} by tier${untrained.length === 0 ? '' : `; never trained on: ${untrained.join(', ')}`}. The p values are not adjusted ` +
        `for the number of tiers.`,
      table(
        ['tier', 'n', 'before', 'after', 'gained', 'lost', 'p'],
        tiers.map((tier) => {
          const { n, gained, lost, p } = paired.byTier[tier];
          return [
            tier,
            n,
            measured(before.byTier[tier]),
            measured(after.byTier[tier]),
            gained,
            lost,
            pValue(p),
          ];
        }),
      ),
    ]),
    'Conditions: the same run with one thing changed. `shuffled-verdicts` and `failures` are controls, which train on something else ' +
      'than verified successes. The difference to `full` is over the same problems and seeds; its interval covers the choice of ' +
      'problems, not the luck of a seed, for which the seeds stand side by side.',
    table(
      ['condition', 'before', ...seedHeads.map((head) => `after, ${head}`), 'mean', 'minus full'],
      conditions.map(({ condition, runs, mean, toFull }) => [
        `\`${condition}\``,
        percent(runs[0].before.mean),
        ...runs.map(({ after }) => measured(after)),
        percent(mean),
        toFull === null ? '' : `${points(toFull.difference)} (${spread(toFull)})`,
      ]),
    ),
  ];
  if (modes.length > 0) {
    const methods = [...new Set(modes.flatMap((each) => each.methods.map(({ method }) => method)))];
    const notes = methods.map(
      (method) =>
        `- \`${method}\`: ${modes.map((each) => methodOf(each, method)).find(Boolean).note}`,
    );
    const skipped = [
      ...new Set(
        modes.flatMap((each) =>
          each.skipped.map(({ method, reason }) => `- \`${method}\` was not measured: ${reason}`),
        ),
      ),
    ];
    const cost = (method, read) => {
      const each = modes.map((seed) => methodOf(seed, method)).filter(Boolean);
      return (new Set(each.map(read)).size === 1 ? each.slice(0, 1) : each).map(read).join(' / ');
    };
    parts.push(
      'The loop (`isopro`) next to methods that do not change the model. `best-of-k` and `majority` draw as many samples of each ' +
        "problem, k, as cost the loop's tokens.",
      table(
        ['method', ...modes.map(({ seed }) => `seed ${seed}`), 'k', 'tokens', 'seconds'],
        methods.map((method) => [
          `\`${method}\``,
          ...modes.map((each) => measured(methodOf(each, method)?.test)),
          cost(method, ({ k }) => k),
          cost(method, ({ tokens }) => whole(tokens)),
          cost(method, ({ seconds }) => seconds.toFixed(0)),
        ]),
      ),
      [...notes, ...skipped].join('\n'),
    );
  }
  const forced =
    embedded == null
      ? []
      : [
          [
            `base model, \`${embedded.forcedPrefix.heuristic}\` forced as its method`,
            embedded.forcedPrefix.test,
          ],
        ];
  const policies = [
    ...Object.entries(trivialPolicies).map(([policy, summary]) => [`\`${policy}\``, summary]),
    ...forced,
  ];
  if (policies.length > 0) {
    parts.push(
      'Programs of a few lines that use no model' +
        (forced.length === 0
          ? ''
          : ", and the base model with one method's name put into its mouth (the one that does best on the dev problems)") +
        ', on the same problems.',
      table(
        ['', 'mean', ...tiers],
        policies.map(([policy, summary]) => [
          policy,
          measured(summary),
          ...tiers.map((tier) => percent(summary.byTier[tier]?.mean)),
        ]),
      ),
    );
  }
  if (embedded != null) {
    const reports = [embedded.before, ...embedded.after];
    const named = Object.keys(embedded.before.shares).filter((heuristic) =>
      reports.some(({ shares }) => shares[heuristic] > 0),
    );
    parts.push(
      'Which method the greedy replies to the test problems name, per cent of replies: what the loop selects among.',
      table(
        ['', 'before', ...embedded.after.map(({ seed }) => `after, seed ${seed}`)],
        named.map((heuristic) => [
          heuristic === 'none' ? 'no known one' : `\`${heuristic}\``,
          ...reports.map(({ shares }) => percent(shares[heuristic])),
        ]),
      ),
    );
  }
  return parts.join('\n\n');
}

/** README has one table: that of a language model, where one was measured. */
function shownOf(folders, brief) {
  const all = Object.entries(folders);
  const ofLanguage = all.filter(([, { summary }]) => summary !== undefined);
  return brief && ofLanguage.length > 0 ? ofLanguage : all;
}

/**
 * What stands between the marks, for folders of results by name; `figures` is
 * dist/src/text/figures.js.
 */
export const resultsText = (folders, figures, { brief = false } = {}) =>
  shownOf(folders, brief)
    .map(([name, results]) => {
      if (results.summary !== undefined)
        return brief ? realMainTable(results, figures) : realTables(name, results, figures);
      return brief ? mainTable(results, figures) : folderTables(name, results, figures);
    })
    .filter((text) => text !== null)
    .join('\n\n');

/** The files that hold results, and whether in brief. */
export const PAGES = { 'docs/results.md': false, 'README.md': true };

export const withResults = (page, content) => betweenMarks(page, 'results', content);

/** The folders of results below `parent`; null where there is none. */
export function readResults(parent = path.join(root, 'results')) {
  if (!existsSync(parent)) return null;
  const read = (...names) => {
    const text = readFileSync(path.join(parent, ...names), 'utf8');
    const value = JSON.parse(text);
    const place = /"((?:\/|[A-Za-z]:\\\\|file:)[^"]*)"/.exec(text);
    if (place !== null)
      throw new Error(`${path.join(...names)} holds a path of a machine: ${place[1]}`);
    return value;
  };
  const folders = readdirSync(parent, { withFileTypes: true })
    // the first has a page of its own (document-truth.mjs), the second is no model's
    .filter((entry) => entry.isDirectory() && !['truth', 'harness'].includes(entry.name))
    .map(({ name }) => name)
    .sort();
  return Object.fromEntries(
    folders.map((name) => {
      const files = readdirSync(path.join(parent, name));
      if (files.includes('summary.json')) {
        const steps = realStepNames().filter((step) => files.includes(`${step}.json`));
        return [
          name,
          {
            summary: read(name, 'summary.json'),
            files: Object.fromEntries(steps.map((step) => [step, read(name, `${step}.json`)])),
          },
        ];
      }
      const ablation = read(name, 'ablation.json');
      const modes = files
        .filter((file) => /^modes-\d+\.json$/.test(file))
        .map((file) => read(name, file))
        .sort((a, b) => ablation.seeds.indexOf(a.seed) - ablation.seeds.indexOf(b.seed));
      return [name, { ablation, modes }];
    }),
  );
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const folders = readResults();
  if (folders === null) throw new Error('there is no folder results/ to read');
  const figures = await import('../dist/src/text/figures.js');
  for (const [page, brief] of Object.entries(PAGES)) {
    const file = path.join(root, page);
    writeFileSync(
      file,
      withResults(readFileSync(file, 'utf8'), resultsText(folders, figures, { brief })),
    );
  }
  const harness = readHarness();
  if (harness !== null) {
    const file = path.join(root, 'docs', 'results.md');
    writeFileSync(file, withHarness(readFileSync(file, 'utf8'), harnessText(harness)));
  }
}
