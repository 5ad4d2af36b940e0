/** What `npm run measure:truth` asks for: all that there is to be scored, or a reason why not. */
import { describe, expect, test } from '@jest/globals';
import { z } from 'zod';
import { DOMAINS } from '../../src/truth-seeking/domains/index.js';
import { REASONING_MODES } from '../../src/truth-seeking/modes/mode.js';
import { STRATEGIES } from '../../src/truth-seeking/strategies/strategy.js';

interface Step {
  readonly model: string;
  readonly settings?: {
    readonly domain: readonly string[];
    readonly mode: readonly string[];
    readonly systemPrompt: readonly string[];
    readonly eval: readonly string[];
  };
}
const {
  truthSteps,
  STRATEGIES: measured,
  LEFT_OUT,
} = (await import('../../scripts/truth-experiments.mjs' as string)) as {
  truthSteps(): readonly Step[];
  readonly STRATEGIES: readonly string[];
  readonly LEFT_OUT: Readonly<Record<string, string>>;
};

/**
 * Each value that an option of a strategy can be one of, as `name:option=value`; the name alone
 * where it has no such option.
 */
function catalogue(): string[] {
  return STRATEGIES.names.flatMap((name) => {
    const choices = Object.entries(
      STRATEGIES.forms[name].shape as Readonly<Record<string, z.ZodType>>,
    ).flatMap(([option, form]) => {
      const { enum: values = [] } = z.toJSONSchema(form, { io: 'input' }) as {
        readonly enum?: readonly string[];
      };
      return values.map((value) => `${name}:${option}=${value}`);
    });
    return [name, ...choices];
  });
}

const isMeasured = (wanted: string): boolean => {
  const [name, option = ''] = wanted.split(/:(.*)/s);
  return measured.some((each) => {
    const { name: own, ...options } = STRATEGIES.parse(each);
    const [key, value] = option.split('=');
    return (
      own === name &&
      (option === '' || String((options as Readonly<Record<string, unknown>>)[key!]) === value)
    );
  });
};

describe('what is measured of truth-seeking', () => {
  test('every strategy, and every value of its options, is measured or left out for a reason', () => {
    const all = catalogue();
    expect(all).toContain('grader:kind=belief');
    expect(all.filter((each) => !isMeasured(each) && LEFT_OUT[each] === undefined)).toEqual([]);
    expect(Object.keys(LEFT_OUT).filter((each) => isMeasured(each) || !all.includes(each))).toEqual(
      [],
    );
  });

  test('both models on every domain, under two prompts and four ways to reason', () => {
    const runs = truthSteps().flatMap(({ model, settings }) =>
      settings === undefined ? [] : [{ model, settings }],
    );
    expect(runs.map(({ model, settings: { domain } }) => `${model} ${domain.join()}`)).toEqual(
      ['tiny', 'smollm2-135m'].flatMap((model) => DOMAINS.map(({ id }) => `${model} ${id}`)),
    );
    for (const { settings } of runs) {
      expect(settings.systemPrompt).toEqual(['confirmatory', 'critical']);
      expect(new Set(settings.mode.map((each) => REASONING_MODES.parse(each).name)).size).toBe(4);
      expect(settings.eval).toEqual(measured);
    }
  });

  test('no problem that comes with the package has a reference, which coverage would need', () => {
    const open = DOMAINS.flatMap((domain) =>
      domain.kind === 'open' && domain.source === 'written' ? domain.problems : [],
    );
    expect(open.length).toBeGreaterThan(0);
    expect(open.filter((problem) => problem.kind === 'open' && problem.reference !== null)).toEqual(
      [],
    );
  });
});
