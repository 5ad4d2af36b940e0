/**
 * Short real runs in which rules fire and a decider chooses, on the model that learns letters. As a
 * program it makes such a run and kills itself at its nth durable state of a kind:
 * `decider-runs.js FOLDER OUT POLICY STATE N`.
 */
import { subscribe } from 'node:diagnostics_channel';
import { appendFileSync } from 'node:fs';
import { join } from 'node:path';
import { run, type RuleConfigInput, type RunOptions, type RunResult } from '../../src/index.js';
import { DURABLE_CHANNEL } from '../../src/durable.js';
import { ruleConfig } from '../../src/monitor/rules.js';
import { LORA } from '../../src/trainees/lora/trainee.js';
import { mergeSettings } from '../../src/training/settings.js';
import type { RunSettingsInput } from '../../src/training/settings.js';
import { ONE_TIER, writeLetterModel, writeLetterTask } from './letters.js';
import { SETTINGS } from './remedy-runs.js';

/** R1 alone fires, on its high side, in every iteration in which it is not silent. */
export const FIRING: RuleConfigInput = {
  persistence: 1,
  coolDown: 0,
  r1: { updateRatioLow: 1e-13, updateRatioHigh: 1e-12, minSteps: 0 },
  r2: { noiseToBatchLow: 1e-30, noiseToBatchHigh: 1e30 },
};

export function writeDeciderInputs(folder: string): void {
  const reader = {
    contextLength: 8192,
    corpus: { text: LORA.ruleSet.playbook(ruleConfig.parse(FIRING)), merges: 700 },
  };
  writeLetterModel(join(folder, 'letters.gguf'), 1n, [], reader);
  writeLetterModel(join(folder, 'other.gguf'), 2n, [], reader);
  writeLetterModel(join(folder, 'short.gguf'), 1n);
  writeLetterTask(join(folder, 'letters.mjs'), { members: ONE_TIER });
}

/** @param policy NAME of `model:NAME` is a file of the folder where there is one */
export function deciderRun(
  folder: string,
  out: string,
  policy: string,
  options: RunOptions = {},
  settings: RunSettingsInput = {},
): Promise<RunResult> {
  return run(
    mergeSettings(
      SETTINGS,
      {
        iterations: 4,
        model: { name: join(folder, 'letters.gguf'), contextTokens: 8192 },
        task: join(folder, 'letters.mjs'),
        monitor: {
          policy: policy.replace(/^model:(.+\.gguf)$/, (_, name) => `model:${join(folder, name)}`),
        },
      },
      settings,
    ),
    { out: join(folder, out), rules: FIRING, ...options },
  );
}

/** Answers of a person who draws: each is noted in a file, so that a test can count them. */
export const drawing =
  (folder: string): NonNullable<RunOptions['ask']> =>
  async () => {
    const drawn = 'ABC'[Math.floor(performance.now() * 1000) % 3]!;
    appendFileSync(join(folder, 'asked.txt'), drawn);
    return drawn;
  };

if (process.argv[1] === import.meta.filename) {
  const [folder, out, policy, state, nth] = process.argv.slice(2) as [
    string,
    string,
    string,
    string,
    string,
  ];
  let begun = false;
  let seen = 0;
  const die = (): void => void process.kill(process.pid, 'SIGKILL');
  // the states of one iteration in their order: question, its head, decision, effect
  subscribe(DURABLE_CHANNEL, (message) => {
    if (!begun || message !== state) return;
    if (++seen === Number(nth)) die();
  });
  const ask = drawing(folder);
  const asking: RunOptions['ask'] = async (text, signal) => {
    begun = true;
    return ask(text, signal);
  };
  await deciderRun(folder, out, policy, { ask: asking }, { iterations: 2 });
}
