/** What `run --dry-run` prints. */
import type { RunPlan } from '../training/dry-run.js';
import { formatBytes, formatNumber } from './quantities.js';
import { flagOf } from './setting-flags.js';

export function dryRunText({ settings, evaluations, layers, trainableParameters, predicted, measured }: RunPlan): string {
  const lines = Object.entries(settings).map(([field, value]) => `  ${flagOf(field).padEnd(22)}${Array.isArray(value) ? value.join(' ') : String(value)}`);
  return [
    'settings',
    ...lines,
    '',
    `${evaluations.test} test problems before and after, ${evaluations.dev} dev problems after each iteration`,
    `${trainableParameters} trainable parameters in layers ${layers.join(', ')}`,
    `measured for ${measured.seconds.toFixed(0)} s: ${formatNumber(measured.sampledTokensPerSecond)} tokens/s sampled, ${formatNumber(measured.trainedTokensPerSecond)} tokens/s trained, ${measured.tokensPerReply.toFixed(0)} tokens a reply`,
    '',
    `predicted: ${formatNumber(predicted.minutes)} minutes, ${predicted.sampledTokens} tokens sampled, ${predicted.trainedTokens} trained, ${formatBytes(predicted.memoryBytes)} of memory, ${formatBytes(predicted.diskBytes)} of disk`,
    '',
  ].join('\n');
}
