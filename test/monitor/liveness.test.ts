import { readFileSync } from 'node:fs';
import { describe, expect, test } from '@jest/globals';
import { dryRunText } from '../../src/cli/run/run-plan.js';
import { LORA } from '../../src/trainees/lora/trainee.js';
import { type Liveness, liveness } from '../../src/monitor/liveness.js';
import { DEFAULT_RULES, ruleConfig, type RuleConfig } from '../../src/monitor/rules.js';
import type { RunPlan } from '../../src/training/dry-run.js';
import { ruleConfigOf } from '../../src/training/monitoring.js';
import { resolveSettings, type RunSettings } from '../../src/training/settings.js';

const from = (config: RuleConfig, steps: number): Record<string, number | null> =>
  Object.fromEntries(
    liveness(config, LORA.ruleSet, steps).map((each) => [
      `${each.rule} ${each.criterion}`,
      each.from,
    ]),
  );
const profile = (name: 'downloaded' | 'embedded'): RunSettings =>
  resolveSettings({ profile: name });
const of = (settings: RunSettings): readonly Liveness[] =>
  liveness(ruleConfigOf(settings), LORA.ruleSet, settings.optimiser.stepsPerIteration);
const [downloaded, embedded] = [profile('downloaded'), profile('embedded')];
const [ofDownloaded, ofEmbedded] = [of(downloaded), of(embedded)];

describe('from when a rule can fire', () => {
  test('follows windows, warm-ups and persistence, by the evaluator itself', () => {
    // eight steps an iteration: a window of five readings and three of them in a row; 20 steps
    // before dormancy is read, three readings after that
    expect(from(DEFAULT_RULES, 8)).toMatchObject({
      'R1 KL': 3,
      'R4 full and flat': 7,
      'R5 dormant directions': 5,
      'R7 not finite': 1,
    });
    expect(from(ruleConfig.parse({ r4: { window: 3 } }), 8)['R4 full and flat']).toBe(5);
    const quick = ruleConfig.parse({ persistence: 1, r3: { patience: 1 }, r5: { minSteps: 0 } });
    expect(from(quick, 8)).toMatchObject({
      'R1 KL': 1,
      'R3 no gain': 1,
      'R4 full and flat': 5,
      'R5 dormant directions': 1,
    });
    expect(from(DEFAULT_RULES, 25)).toMatchObject({ 'R5 dormant directions': 3, 'R7 clipping': 4 });
    expect(
      liveness(ruleConfig.parse({ r3: { patience: 50 } }), LORA.ruleSet, 8, 10).find(
        ({ rule }) => rule === 'R3',
      )!.from,
    ).toBeNull();
  });

  test('is what docs/monitor.md says of both profiles', () => {
    const page = readFileSync(new URL('../../docs/monitor.md', import.meta.url), 'utf8');
    const cell = (at: number | null, { iterations }: RunSettings): string =>
      at !== null && at <= iterations ? String(at) : `not in ${iterations} (${at})`;
    const rows = ofDownloaded.map(
      ({ rule, criterion, from: at }, i) =>
        `| ${rule} | ${criterion} | ${cell(at, downloaded)} | ${cell(ofEmbedded[i]!.from, embedded)} |`,
    );
    expect(page).toContain(rows.join('\n'));
  });

  test('stands in the plan of a dry run, what cannot fire in it by name', () => {
    const settings = downloaded;
    const plan: RunPlan = {
      settings,
      warnings: [],
      evaluations: { dev: 40, test: 200 },
      layers: [1],
      trainableParameters: 1,
      rules: ofDownloaded,
      calibration: null,
      predicted: {
        minutes: 1,
        processorSeconds: 60,
        sampledTokens: 1,
        trainedTokens: 1,
        memoryBytes: 1,
        diskBytes: 1,
      },
      measured: {
        seconds: 1,
        tokensPerReply: 1,
        sampledTokensPerSecond: 1,
        trainedTokensPerSecond: 1,
      },
    };
    expect(dryRunText(plan)).toMatch(
      /from iteration 1: R7 \(not finite\)\n[^]*cannot fire in 6 iterations: R4 needs 7, R7 \(gradient outside its past\) needs 7\n/,
    );
    expect(dryRunText({ ...plan, settings: { ...settings, iterations: 12 } })).toMatch(
      /from iteration 7: R4, R7 \(gradient outside its past\)\n\n/,
    );
    const lengths = dryRunText(plan, { prose: 80 })
      .split('\n')
      .map((line) => line.length);
    expect(Math.max(...lengths)).toBeLessThanOrEqual(80);
  });
});
