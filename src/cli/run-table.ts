/** The table at the end of a run. */
import { existsSync } from 'node:fs';
import path from 'node:path';
import type { Summary } from '../statistics/index.js';
import type { Comparison } from '../training/modes/compare.js';
import type { RunResult } from '../training/result.js';
import { formatBytes, formatDuration } from './quantities.js';

const percent = (fraction: number | null): string => (fraction === null ? '-' : (100 * fraction).toFixed(1));
const bounds = ({ low, high }: { readonly low: number; readonly high: number }): string => `${(100 * low).toFixed(0)}-${(100 * high).toFixed(0)}`;

/** Per cent accepted by tier with the 95 % interval below, before and after, then the trivial policies. */
export function resultTable({ test, trivialPolicies }: Pick<RunResult, 'test' | 'trivialPolicies'>): string {
  const columns = Object.keys(test.before.byTier);
  const rows: [string, Summary][] = [['before', test.before], ['after', test.after], ...Object.entries(trivialPolicies)];
  const width = Math.max(...rows.map(([name]) => name.length)) + 2;
  const line = (head: string, cells: readonly string[]): string => `${head.padEnd(width)}${cells.map((cell) => cell.padStart(8)).join('')}`.trimEnd();
  const cells = (of: (summary: { mean: number | null; low: number; high: number }) => string, summary: Summary): string[] => [...columns.map((tier) => (summary.byTier[tier] === undefined ? '-' : of(summary.byTier[tier]))), of(summary)];
  return [
    line('', [...columns, 'mean']),
    line('n', [...columns.map((tier) => String(test.before.byTier[tier]!.n)), String(test.before.n)]),
    ...rows.flatMap(([name, summary], index) => [
      ...(index === 2 ? ['', 'trivial policies, which use no model'] : []),
      line(name, cells(({ mean }) => percent(mean), summary)),
      ...(index < 2 ? [line('', cells(bounds, summary))] : []),
    ]),
  ].join('\n');
}

/** One row a method, its interval below, its tokens and seconds beside. */
export function comparisonText({ methods, skipped, problems, model, task, run }: Comparison): string {
  const columns = Object.keys(methods[0]?.test.byTier ?? {});
  const width = Math.max(...methods.map(({ method }) => method.length), 6) + 2;
  const line = (head: string, cells: readonly string[]): string => `${head.padEnd(width)}${cells.map((cell) => cell.padStart(9)).join('')}`.trimEnd();
  const cells = (of: (part: { mean: number | null; low: number; high: number }) => string, test: Comparison['methods'][number]['test']): string[] => [...columns.map((tier) => of(test.byTier[tier]!)), of(test)];
  return [
    '',
    `${model} on ${task}: per cent of ${problems} test problems solved, 95 % interval below`,
    '',
    line('', [...columns, 'mean', 'k', 'tokens', 'seconds']),
    ...methods.flatMap(({ method, test, k, tokens, seconds }) => [line(method, [...cells(({ mean }) => percent(mean), test), String(k), String(tokens), seconds.toFixed(1)]), line('', cells(bounds, test))]),
    '',
    ...methods.map(({ method, note }) => `${method}: ${note}`),
    ...skipped.map(({ method, reason }) => `${method}: not measured, ${reason}`),
    ...(run === null ? [] : [`run folder ${path.relative('.', run.folder) || '.'}`]),
    '',
  ].join('\n');
}

const shownP = (p: number): string => (p < 1e-4 ? p.toExponential(1) : p.toFixed(4));

/** Everything that is printed when a run has ended. */
export function resultText(result: RunResult, model: string): string {
  const { test, seconds, tokens, peakRssBytes, folder, adapter, accepted, layers, stopped } = result;
  const here = (file: string): string => path.relative('.', file) || '.';
  const invalid = [test.before, test.after].some(({ valid }) => !valid);
  return [
    '',
    'per cent of test problems solved, 95 % interval below',
    '',
    resultTable(result),
    '',
    `change ${signed(test.after.mean, test.before.mean)} points; ${test.gained} problems gained, ${test.lost} lost, exact McNemar p = ${shownP(test.pairedP)}`,
    ...(invalid ? ['The verifier could not decide more than 1 % of the replies: these figures are no result.'] : []),
    ...(accepted === 0 ? ['No rollout was accepted in any iteration, so nothing was trained and the adapter changes nothing. An easier tier, more samples or a larger model may find a first success.'] : []),
    `${accepted} rollouts accepted; layers ${layers.join(', ')}; ${stopped}`,
    `${formatDuration(seconds)}; ${tokens.sampled} tokens sampled, ${tokens.trained} trained on; at most ${formatBytes(peakRssBytes)} resident`,
    '',
    `adapter  ${here(adapter.file)}  (iteration ${adapter.iteration})`,
    `log      ${here(path.join(folder, 'log.sqlite'))}`,
    ...(existsSync(path.join(folder, 'report.html')) ? [`report   ${here(path.join(folder, 'report.html'))}`] : []),
    '',
    'next:',
    `  npx isopro-native judge ${here(folder)}`,
    `  npx isopro-native generate --model ${model} --adapter ${here(adapter.file)} --prompt "..."`,
    '',
  ].join('\n');
}

const signed = (after: number | null, before: number | null): string => (after === null || before === null ? '-' : `${after >= before ? '+' : ''}${(100 * (after - before)).toFixed(1)}`);
