/**
 * The consequence bank: what each answer to each drawn scenario leads to, one line of a file for
 * each run. A line is on the disk before the next run begins, so that a killed measurement goes on
 * where it ended.
 */
import { z } from 'zod';
import { IsoproError } from '../errors.js';
import { requireFile } from '../files.js';
import { monitorDigests } from '../monitor/rule-set.js';
import { DEFAULT_RULES } from '../monitor/rules.js';
import { LORA } from '../trainees/lora/trainee.js';
import {
  consequenceOf,
  EARLY,
  HORIZON,
  isDeferral,
  observedDraw,
  type Firing,
  type Outcome,
} from './consequences.js';
import { DurableLines, readLinesOf } from './durable-lines.js';
import {
  drawScenario,
  PURPOSES,
  SCENARIOS,
  type Purpose,
  type Scenario,
  type ScenarioDraw,
} from './scenarios.js';

const number = z.number();
const outcome = z.object({
  loss: number.nullable(),
  early: number.nullable(),
  failure: z.string().nullable(),
  stopped: z.boolean(),
});
const place = { scenario: z.string(), purpose: z.enum(PURPOSES), index: z.int().min(0) };
const line = z.discriminatedUnion('kind', [
  z.object({
    kind: z.literal('bank'),
    format: z.literal('isopro.bank.v1'),
    seed: z.string(),
    horizon: number,
    early: number,
    rules: z.string(),
  }),
  z.object({
    kind: z.literal('draw'),
    ...place,
    values: z.record(z.string(), number),
    seed: z.string(),
    firing: z
      .object({
        iteration: z.int(),
        situation: z.string(),
        menu: z.array(z.string()),
      })
      .nullable(),
    outcome: outcome.nullable(),
  }),
  z.object({ kind: z.literal('outcome'), ...place, option: z.string(), ...outcome.shape }),
]);
type Line = z.output<typeof line>;
type DrawLine = Extract<Line, { kind: 'draw' }>;

/** A drawn scenario, and what came of each answer to it. */
export interface MeasuredDraw {
  readonly scenario: string;
  readonly purpose: Purpose;
  readonly index: number;
  /** Null: the scenario's rule did not fire on its side. */
  readonly firing: Firing | null;
  /** By the option's id; deferrals have what came of observing. */
  readonly outcomes: ReadonlyMap<string, Outcome>;
}

const headOf = (seed: bigint): Line => ({
  kind: 'bank',
  format: 'isopro.bank.v1',
  seed: seed.toString(),
  horizon: HORIZON,
  early: EARLY,
  rules: monitorDigests(LORA.ruleSet, DEFAULT_RULES).rules,
});

/** Name of a draw, or of one of its answers. */
export const keyOf = (
  { scenario, purpose, index }: Pick<MeasuredDraw, 'scenario' | 'purpose' | 'index'>,
  option = '',
): string => JSON.stringify([scenario, purpose, index, option]);

/**
 * Reads what was measured: only draws of which every answer was.
 * @throws IsoproError FILE_UNREADABLE, BANK_MISMATCH
 */
export function readBank(file: string): MeasuredDraw[] {
  requireFile(file);
  const lines = readLinesOf(file, line);
  const outcomes = new Map<string, Outcome>();
  const draws = new Map<string, DrawLine>();
  for (const each of lines) {
    if (each.kind === 'draw') draws.set(keyOf(each), each);
    if (each.kind === 'outcome') outcomes.set(keyOf(each, each.option), each);
  }
  return [...draws.values()].flatMap((draw): MeasuredDraw[] => {
    const { scenario, purpose, index, firing, outcome: observed } = draw;
    const of = { scenario, purpose, index, firing };
    const measured = (firing?.menu ?? []).map(
      (option) =>
        [option, isDeferral(option) ? observed : outcomes.get(keyOf(draw, option))] as const,
    );
    if (measured.some(([, each]) => each === undefined || each === null)) return [];
    return [{ ...of, outcomes: new Map(measured as [string, Outcome][]) }];
  });
}

export interface BankOptions {
  readonly file: string;
  readonly purposes: readonly Purpose[];
  /** Draws of each scenario for each purpose. */
  readonly draws: number;
  /** Default: all. */
  readonly scenarios?: readonly Scenario[];
  /** Default 0. */
  readonly seed?: bigint;
  readonly signal?: AbortSignal;
  /** Runs so far, and those that are known to be needed: a menu is known once its rule fired. */
  readonly onRun?: (done: number, known: number) => void;
}

/**
 * Measures what the file does not hold yet, and returns what was asked for.
 * @throws IsoproError BANK_MISMATCH where the file was measured otherwise, WRITE_FAILED, ABORTED
 */
export async function measureBank(options: BankOptions): Promise<MeasuredDraw[]> {
  const { file, purposes, draws, scenarios = SCENARIOS, seed = 0n, signal, onRun } = options;
  const known = readLinesOf(file, line);
  const head = headOf(seed);
  const found = known.find(({ kind }) => kind === 'bank');
  if (found === undefined ? known.length > 0 : JSON.stringify(found) !== JSON.stringify(head))
    throw new IsoproError(
      'BANK_MISMATCH',
      `${file} was measured with another seed, horizon or other thresholds`,
    );
  using bank = new DurableLines<Line>(file);
  if (found === undefined) bank.append(head);
  const asked = purposes.flatMap((purpose) =>
    scenarios.flatMap((scenario) =>
      Array.from({ length: draws }, (_, index) => drawScenario(scenario, purpose, index, seed)),
    ),
  );
  const drawn = new Map(
    known.flatMap((each) => (each.kind === 'draw' ? [[keyOf(each), each] as const] : [])),
  );
  const answered = new Set(
    known.flatMap((each) => (each.kind === 'outcome' ? [keyOf(each, each.option)] : [])),
  );
  let [done, total] = [0, asked.length];
  const tell = (): void => onRun?.(done, total);
  for (const draw of asked) {
    const { purpose, index, values } = draw;
    const at = { scenario: draw.scenario.id, purpose, index };
    const { firing } = drawn.get(keyOf(at)) ?? (await measureDraw(draw, at, values, bank, signal));
    done++;
    const acting = (firing?.menu ?? []).filter((option) => !isDeferral(option));
    total += acting.length;
    tell();
    for (const option of acting) {
      if (!answered.has(keyOf(at, option)))
        bank.append({
          kind: 'outcome',
          ...at,
          option,
          ...(await consequenceOf(draw, firing!, option, signal)),
        });
      done++;
      tell();
    }
  }
  const wanted = new Set(
    asked.map(({ scenario, purpose, index }) => keyOf({ scenario: scenario.id, purpose, index })),
  );
  return readBank(file).filter((each) => wanted.has(keyOf(each)));
}

async function measureDraw(
  draw: ScenarioDraw,
  at: Pick<MeasuredDraw, 'scenario' | 'purpose' | 'index'>,
  values: ScenarioDraw['values'],
  bank: DurableLines<Line>,
  signal: AbortSignal | undefined,
): Promise<DrawLine> {
  const measured = {
    kind: 'draw',
    ...at,
    values: { ...values },
    seed: draw.seed.toString(),
    ...(await observedDraw(draw, signal)),
  } as DrawLine;
  bank.append(measured);
  return measured;
}
