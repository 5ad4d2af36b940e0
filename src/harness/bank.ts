/**
 * The consequence bank: what each answer to each drawn scenario leads to, one line of a file for
 * each run. A line is on the disk before the next run begins, so that a killed measurement goes on
 * where it ended.
 */
import { closeSync, fstatSync, fsyncSync, openSync, readSync, writeSync } from 'node:fs';
import path from 'node:path';
import { z } from 'zod';
import { IsoproError } from '../errors.js';
import { isFile, makeFolder, readText, requireTarget, unwritable } from '../files.js';
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

const keyOf = (
  { scenario, purpose, index }: Pick<MeasuredDraw, 'scenario' | 'purpose' | 'index'>,
  option = '',
): string => JSON.stringify([scenario, purpose, index, option]);

/** Lines of a bank. A line that a kill has cut is left out. */
function linesOf(file: string): Line[] {
  return readText(file)
    .split('\n')
    .flatMap((each): Line[] => {
      let data: unknown;
      try {
        data = JSON.parse(each);
      } catch {
        return [];
      }
      const parsed = line.safeParse(data);
      if (!parsed.success)
        throw new IsoproError('BANK_MISMATCH', `${file} holds a line that is none of a bank's`);
      return [parsed.data];
    });
}

/**
 * Reads what was measured: only draws of which every answer was.
 * @throws IsoproError FILE_UNREADABLE, BANK_MISMATCH
 */
export function readBank(file: string): MeasuredDraw[] {
  const lines = linesOf(file);
  const outcomes = new Map<string, Outcome>();
  const draws = new Map<string, Extract<Line, { kind: 'draw' }>>();
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

/** Appends lines, each on the disk when `append` returns. */
class BankFile implements Disposable {
  readonly #file: string;
  readonly #handle: number;

  constructor(file: string) {
    this.#file = file;
    makeFolder(path.dirname(file));
    requireTarget(file);
    try {
      this.#handle = openSync(file, 'a+', 0o644);
    } catch (cause) {
      throw unwritable(file, cause);
    }
    // a line that a kill has cut ends here
    const { size } = fstatSync(this.#handle);
    const last = Buffer.alloc(1);
    if (size > 0) readSync(this.#handle, last, 0, 1, size - 1);
    if (size > 0 && last.toString() !== '\n') this.#write('\n');
  }

  #write(text: string): void {
    try {
      writeSync(this.#handle, text);
      fsyncSync(this.#handle);
    } catch (cause) {
      throw unwritable(this.#file, cause);
    }
  }

  append(each: Line): void {
    this.#write(`${JSON.stringify(each)}\n`);
  }

  [Symbol.dispose](): void {
    closeSync(this.#handle);
  }
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
  const known = isFile(file) ? linesOf(file) : [];
  const head = headOf(seed);
  const found = known.find(({ kind }) => kind === 'bank');
  if (found === undefined ? known.length > 0 : JSON.stringify(found) !== JSON.stringify(head))
    throw new IsoproError(
      'BANK_MISMATCH',
      `${file} was measured with another seed, horizon or other thresholds`,
    );
  using bank = new BankFile(file);
  if (found === undefined) bank.append(head);
  const asked = purposes.flatMap((purpose) =>
    scenarios.flatMap((scenario) =>
      Array.from({ length: draws }, (_, index) => drawScenario(scenario, purpose, index, seed)),
    ),
  );
  const has = new Set(
    known.flatMap((each) =>
      each.kind === 'draw'
        ? [keyOf(each)]
        : each.kind === 'outcome'
          ? [keyOf(each, each.option)]
          : [],
    ),
  );
  let [done, total] = [0, asked.length];
  const tell = (): void => onRun?.(done, total);
  for (const draw of asked) {
    const { purpose, index, values } = draw;
    const at = { scenario: draw.scenario.id, purpose, index };
    const firing = has.has(keyOf(at))
      ? known.find((each) => each.kind === 'draw' && keyOf(each) === keyOf(at))!
      : await measureDraw(draw, at, values, bank, signal);
    done++;
    const options = (firing as Extract<Line, { kind: 'draw' }>).firing;
    const acting = (options?.menu ?? []).filter((option) => !isDeferral(option));
    total += acting.length;
    tell();
    for (const option of acting) {
      if (!has.has(keyOf(at, option)))
        bank.append({
          kind: 'outcome',
          ...at,
          option,
          ...(await consequenceOf(draw, options!, option, signal)),
        });
      done++;
      tell();
    }
  }
  const wanted = new Set(asked.map(({ scenario, purpose, index }) => keyOf({ scenario: scenario.id, purpose, index })));
  return readBank(file).filter((each) => wanted.has(keyOf(each)));
}

async function measureDraw(
  draw: ScenarioDraw,
  at: Pick<MeasuredDraw, 'scenario' | 'purpose' | 'index'>,
  values: ScenarioDraw['values'],
  bank: BankFile,
  signal: AbortSignal | undefined,
): Promise<Line> {
  const measured: Line = {
    kind: 'draw',
    ...at,
    values: { ...values },
    seed: draw.seed.toString(),
    ...(await observedDraw(draw, signal)),
  } as Line;
  bank.append(measured);
  return measured;
}
