/** Output of `run --dry-run`. */
import type { RunPlan } from '../../training/dry-run.js';
import type { Liveness } from '../../monitor/liveness.js';
import { calibrationTable, recommendedFlags } from '../tasks/calibration-table.js';
import { layersText } from './run-table.js';
import { formatBytes, formatNumber } from '../quantities.js';
import { flagsInUse } from '../../operations/run-settings.js';
import { wrapped, type TerminalStyle } from '../../text/terminal-style.js';

/** @param style sentences are wrapped to its `prose` */
export function dryRunText(
  {
    settings,
    warnings,
    evaluations,
    layers,
    trainableParameters,
    rules,
    calibration,
    predicted,
    measured,
  }: RunPlan,
  style: Pick<TerminalStyle, 'prose'> = {},
): string {
  const sentence = (text: string): string => wrapped(text, style, text.startsWith('  ') ? 2 : 0);
  const lines = flagsInUse(settings).map(
    ([flag, value]) =>
      `  ${flag.padEnd(22)}${Array.isArray(value) ? value.join(' ') : String(value)}`,
  );
  return [
    'settings',
    ...lines,
    '',
    ...warnings.flatMap((warning) => [sentence(warning), '']),
    `${evaluations.test} test problems before and after, ${evaluations.dev} dev problems after each iteration`,
    `${trainableParameters} trainable parameters in layers ${layersText(layers)}`,
    sentence(
      `measured for ${measured.seconds.toFixed(0)} s: ${formatNumber(measured.sampledTokensPerSecond)} tokens/s sampled, ` +
        `${formatNumber(measured.trainedTokensPerSecond)} tokens/s trained, ${measured.tokensPerReply.toFixed(0)} tokens a reply`,
    ),
    '',
    ...calibrationText(calibration, sentence),
    ...rulesText(rules, settings.iterations).map(sentence),
    '',
    sentence(
      `predicted: ${formatNumber(Math.max(1, Math.round(predicted.minutes)))} minutes, ` +
        `${formatNumber(predicted.processorSeconds)} processor seconds, ${predicted.sampledTokens} tokens sampled, ` +
        `${predicted.trainedTokens} trained, ${formatBytes(predicted.memoryBytes)} of memory, ${formatBytes(predicted.diskBytes)} of disk`,
    ),
    '',
  ].join('\n');
}

function calibrationText(
  calibration: RunPlan['calibration'],
  sentence: (text: string) => string,
): string[] {
  if (calibration === null) return [];
  const { problems, samples, seconds, tiers, recommended } = calibration;
  return [
    sentence(
      `short calibration: up to ${problems} problems per tier, ${samples} replies each, within ${seconds} s; per cent, 95 % ` +
        'interval below (`tasks calibrate` measures more)',
    ),
    '',
    calibrationTable(tiers, samples),
    '',
    ...recommended.reasons.map((reason) => sentence(`- ${reason}`)),
    ...(recommended.settings === null
      ? []
      : [
          sentence(
            `tiers that the model can learn from: ${recommended.tiers.join(', ')}; try ${recommendedFlags(recommended.settings)}`,
          ),
        ]),
    '',
  ];
}

/** Lines of rules by the first iteration in which they can fire; several criteria are named. */
function rulesText(rules: readonly Liveness[], iterations: number): string[] {
  const name = ({ rule, criterion }: Liveness): string =>
    rules.filter((each) => each.rule === rule).length > 1 ? `${rule} (${criterion})` : rule;
  const live = [...new Set(rules.map(({ from }) => from))]
    .filter((from) => from !== null && from <= iterations)
    .sort((a, b) => a! - b!);
  const late = rules.filter(({ from }) => from === null || from > iterations);
  return [
    'rules that can fire',
    ...live.map(
      (from) =>
        `  from iteration ${from}: ${rules
          .filter((each) => each.from === from)
          .map(name)
          .join(', ')}`,
    ),
    ...(late.length === 0
      ? []
      : [
          `  cannot fire in ${iterations} iterations: ` +
            `${late.map((each) => `${name(each)}${each.from === null ? '' : ` needs ${each.from}`}`).join(', ')}`,
        ]),
  ];
}
