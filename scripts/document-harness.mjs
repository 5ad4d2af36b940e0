// The tables of docs/results.md about deciders, from results/harness/summary.json, which
// `npm run measure:harness` leaves.
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { betweenMarks } from './between-marks.mjs';
import { table } from './table.mjs';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
export const PAGE = 'docs/results.md';

/** Figures of deciders; null where there are none. */
export function readHarness() {
  const file = path.join(root, 'results', 'harness', 'summary.json');
  return existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : null;
}
export const withHarness = (page, content) => betweenMarks(page, 'harness', content);

const two = (value) => (value === null || value === undefined ? '–' : value.toFixed(2));
const signed = (value) => `${value < 0 ? '−' : '+'}${Math.abs(value).toFixed(2)}`;
const bounds = (of) =>
  of === null || of === undefined
    ? '–'
    : `${signed(of.difference ?? of.mean)} (${signed(of.low)} to ${signed(of.high)})`;
const counts = (of) =>
  Object.entries(of)
    .map(([name, n]) => `${name} ${n}`)
    .join(', ') || '–';

function optionsText(regret) {
  const rows = Object.entries(regret).flatMap(([row, options]) => {
    const deferral = options.find(({ option }) => option.startsWith('defer '));
    return options
      .filter((each) => !each.option.startsWith('defer ') || each === deferral)
      .map(({ option, regret: mean, draws }, i) => [
        i === 0 ? row : '',
        option.startsWith('defer ') ? 'defer' : `\`${option}\``,
        two(mean),
        draws,
      ]);
  });
  return table(['rule and side', 'answer', 'regret', 'draws'], rows);
}

/** What stands between the marks. */
export function harnessText({ draws, measured, silent, alike, deciders, regret, code, machine }) {
  const [first] = deciders;
  return [
    `Each scenario was drawn ${draws} times for training and ${draws} times for the held-out set: ${measured} draws. ` +
      `In ${silent} of them the scenario's rule did not fire, and in ${alike} all answers led to the same loss. ` +
      `Version ${code.version} on ${machine.processor}, ${machine.cores} cores. ` +
      'Written by `npm run docs:results` from `results/harness/`.',
    `The first answer of each decider on the held-out draws: mean regret over scenarios, ` +
      `at the horizon and three iterations after the firing; ` +
      `the difference to \`${first.decider}\`, paired by draw, with its 95 % interval.`,
    table(
      [
        'decider',
        'answers',
        'regret',
        `minus \`${first.decider}\``,
        'early regret',
        `minus \`${first.decider}\``,
        'nats',
        'by whom',
        'tokens',
        'seconds',
      ],
      deciders.map((each) => [
        `\`${each.decider}\``,
        `${each.scored} of ${each.answers}`,
        two(each.regret.end),
        bounds(each.difference.end),
        two(each.regret.early),
        bounds(each.difference.early),
        two(each.nats),
        counts(each.sources),
        each.tokens === 0 ? '–' : each.tokens.toFixed(0),
        each.tokens === 0 ? '–' : each.seconds.toFixed(1),
      ]),
    ),
    'The same deciders, each of which decides a whole run of each held-out draw.',
    table(
      [
        'decider',
        'runs',
        'final loss',
        `minus \`${first.decider}\``,
        'process score',
        'obligations',
        'violations',
        'decisions by whom',
      ],
      deciders
        .filter(({ plays }) => plays !== null)
        .map(({ decider, plays }) => [
          `\`${decider}\``,
          plays.runs,
          plays.loss === null ? '–' : plays.loss.toFixed(3),
          bounds(plays.difference),
          two(plays.process.process_score),
          plays.process.obligations,
          plays.process.violations,
          counts(plays.sources),
        ]),
    ),
    'Mean regret of each answer on the training draws, from which the table is made.',
    optionsText(regret.training),
    'The same on the held-out draws.',
    optionsText(regret['held-out']),
  ].join('\n\n');
}
