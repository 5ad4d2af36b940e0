/** The tables of the embedded model's card, from what was measured. */
import type { Measurement } from './measure.js';

export interface Figures {
  /** SHA-256 of the model file. */
  readonly model: string;
  readonly bytes: number;
  readonly greedyDev: Measurement;
  readonly sampledDev: Measurement;
  readonly greedyTest?: Measurement;
}

const line = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`;
const percent = (part: number, whole: number): string =>
  whole === 0 ? '–' : ((100 * part) / whole).toFixed(1);

function row(title: string, { byTier, mean, replies, parsed }: Measurement): string {
  const cells = Object.values(byTier).map(
    ({ passed, replies: count, interval: [low, high] }) =>
      `${percent(passed, count)} (${(100 * low).toFixed(0)}–${(100 * high).toFixed(0)})`,
  );
  return line([title, ...cells, (100 * mean).toFixed(1), percent(parsed, replies)]);
}

export function renderFigures({
  model,
  bytes,
  greedyDev,
  sampledDev,
  greedyTest,
}: Figures): string {
  const tiers = Object.keys(greedyDev.byTier);
  const names = Object.entries(sampledDev.byHeuristic).sort(
    ([, a], [, b]) => b.replies - a.replies,
  );
  const greedy = greedyTest ?? greedyDev;
  return [
    `SHA-256 \`${model}\`, ${bytes.toLocaleString('en')} bytes.`,
    '',
    'Percentage of replies that pass, with 95 % intervals in parentheses.',
    'The mean is over T0 to T5, and T4 is the mean of its three kinds.',
    '',
    `| | ${tiers.join(' | ')} | mean | parse |`,
    `|---${'|---'.repeat(tiers.length + 2)}|`,
    ...(greedyTest === undefined ? [] : [row(`greedy, test (${greedyTest.replies})`, greedyTest)]),
    row(`greedy, dev (${greedyDev.replies})`, greedyDev),
    row(
      `T = ${sampledDev.temperature}, dev (${sampledDev.replies}, ${sampledDev.samplesPerProblem} a problem)`,
      sampledDev,
    ),
    line([
      'problems solved by at least one of these replies',
      ...Object.values(sampledDev.byTier).map(({ solved, problems }) => `${solved} of ${problems}`),
      '',
      '',
    ]),
    '',
    `| heuristic | named, % (T = ${sampledDev.temperature}) | passes, % | executed exactly, % | named, % (greedy) |`,
    '|---|---|---|---|---|',
    ...names.map(([name, { replies, passed, exact }]) =>
      line([
        name,
        percent(replies, sampledDev.replies),
        percent(passed, replies),
        percent(exact, replies),
        percent(greedy.byHeuristic[name]?.replies ?? 0, greedy.replies),
      ]),
    ),
    '',
    `Tokens: ${(greedy.promptTokens / greedy.replies).toFixed(0)} a prompt, ` +
      `${(sampledDev.sampledTokens / sampledDev.replies).toFixed(0)} a reply on average.`,
  ].join('\n');
}
