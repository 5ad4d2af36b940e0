/**
 * Pairs trials of two versions on the same problems. Nothing is dropped silently: a trial without a
 * partner is a fault.
 */
import { z } from 'zod';

const text = z.string().min(1).max(500);
/** Accepts every number, so that NaN makes evidence invalid instead of failing the form check. */
const anyNumber = z.custom<number>((value) => typeof value === 'number', 'expected a number');

export const trial = z.strictObject({
  /** Id of the version that answered: the challenger's or the incumbent's. */
  version: text,
  task: text,
  /**
   * Meaning of the score: the evaluator's epoch and the verifier's digest. Scores compare only
   * within both.
   */
  epoch: text,
  verifier: text,
  problem: text,
  sample: z.number().int().min(0).default(0),
  /** Read by the paired t only. */
  lane: z.enum(['screen', 'confirmation', 'held-out']).default('confirmation'),
  /**
   * In [0, 1], a reply that is invalid counting 0; for a guard with a ceiling, a cost of at least
   * 0.
   */
  score: anyNumber.optional(),
  /**
   * The score is a cost with a sign, of which the distance of the mean from 0 counts; one without
   * it in the same guard is a distance.
   */
  signed: z.literal(true).optional(),
  /** Reason why there is no score: the machinery failed, not the version. */
  error: z.string().max(2000).optional(),
});
export type TrialInput = z.input<typeof trial>;
export type Trial = z.output<typeof trial>;
export type Lane = Trial['lane'];

/** Lists of 100,000 pairs and a million trials are met; more is a mistake. */
export const trials = z.array(trial).max(2_000_000);

/**
 * A cost seen from above and from below, as parts of the ceiling: of a distance both are the same,
 * of a signed cost one is the other's negative.
 */
export const SIDES = ['up', 'down'] as const;
export type Side = (typeof SIDES)[number];
export type CostSides = Readonly<Record<Side, number>>;

/** One problem: the unit of evidence, whatever the number of its samples. */
export interface Block {
  readonly lane: Lane;
  /** One value a sample, the n-th of both arms from the same sample. */
  readonly challenger: readonly number[];
  readonly incumbent: readonly number[];
  /** Costs of a guard with signed costs. */
  readonly costs?: {
    readonly challenger: readonly CostSides[];
    readonly incumbent: readonly CostSides[];
  };
}

export interface Pairing {
  /** In the order in which their problems first appear. */
  readonly blocks: readonly Block[];
  readonly pairs: number;
  /** Reasons why the evidence is invalid: the first few, then the number of the others. */
  readonly faults: readonly string[];
  /** Trials that failed through no version's fault. */
  readonly errors: readonly string[];
}

interface Arm {
  trial: Trial;
  score: number;
  costs: CostSides;
}
interface OpenBlock {
  readonly lane: Lane;
  readonly samples: Map<number, { challenger?: Arm; incumbent?: Arm; failed: boolean }>;
}

const SHOWN = 5;
const shorten = (value: string): string => (value.length > 60 ? `${value.slice(0, 60)}…` : value);
const nameOf = ({ task, problem, sample }: Trial): string =>
  `${shorten(task)} ${shorten(problem)} sample ${sample}`;

function shown(all: readonly string[]): string[] {
  return all.length > SHOWN ? [...all.slice(0, SHOWN), `and ${all.length - SHOWN} more`] : [...all];
}

function isInRange(score: number, isSigned: boolean, ceiling: number | undefined): boolean {
  if (isSigned) return Number.isFinite(score);
  return score >= 0 && score < Infinity && (ceiling !== undefined || score <= 1);
}

/**
 * Pairs trials by task, problem, sample, evaluator epoch and verifier digest.
 * @param ceiling the scores are costs, of which more than this counts as this; they become 1 - cost
 *   / ceiling, of signed ones by their distance from 0
 */
export function pair(
  given: readonly Trial[],
  challenger: string,
  incumbent: string,
  ceiling?: number,
): Pairing {
  const faults: string[] = [];
  const errors: string[] = [];
  const judges = new Map<string, Trial>();
  const blocks = new Map<string, OpenBlock>();
  for (const each of given) {
    const { task, problem, sample, lane, version, score, error, signed } = each;
    const fault = (what: string): number => faults.push(`${nameOf(each)}: ${what}`);
    const arm = version === challenger ? 'challenger' : version === incumbent ? 'incumbent' : null;
    if (arm === null) {
      fault(`version ${shorten(version)} is neither the challenger nor the incumbent`);
      continue;
    }
    const judge = judges.get(task) ?? each;
    judges.set(task, judge);
    if (judge.epoch !== each.epoch)
      fault(`evaluator epoch ${shorten(each.epoch)} differs from ${shorten(judge.epoch)}`);
    if (judge.verifier !== each.verifier)
      fault(`verifier ${shorten(each.verifier)} differs from ${shorten(judge.verifier)}`);
    const key = JSON.stringify([task, problem]);
    let block = blocks.get(key);
    if (block === undefined) blocks.set(key, (block = { lane, samples: new Map() }));
    if (block.lane !== lane) fault(`is in the lanes ${block.lane} and ${lane}`);
    let sides = block.samples.get(sample);
    if (sides === undefined) block.samples.set(sample, (sides = { failed: false }));
    if (sides[arm] !== undefined) {
      fault(`the ${arm} has it twice`);
      continue;
    }
    sides[arm] = { trial: each, score: 0, costs: { up: 0, down: 0 } };
    if ((score === undefined) === (error === undefined)) fault('needs either a score or an error');
    else if (score === undefined) {
      sides.failed = true;
      errors.push(`${nameOf(each)} of the ${arm}: ${shorten(error!)}`);
    } else if (signed === true && ceiling === undefined)
      fault('a signed score needs a guard with a ceiling');
    else if (!isInRange(score, signed === true, ceiling)) {
      const range = ceiling === undefined ? 'not in [0, 1]' : 'not a finite cost';
      fault(`score ${score} of the ${arm} is ${range}`);
    } else {
      const part = ceiling === undefined ? 0 : Math.min(1, Math.max(-1, score / ceiling));
      sides[arm].score = ceiling === undefined ? score : 1 - Math.abs(part);
      sides[arm].costs = { up: part, down: signed === true ? -part : part };
    }
  }
  const isSigned = given.some(({ signed }) => signed === true);
  let pairs = 0;
  const closed: Block[] = [];
  for (const { lane, samples } of blocks.values()) {
    const whole = [...samples.values()].filter((sides) => {
      if (sides.challenger !== undefined && sides.incumbent !== undefined) return !sides.failed;
      const arm = sides.challenger === undefined ? 'incumbent' : 'challenger';
      faults.push(`${nameOf(sides[arm]!.trial)}: only the ${arm} has it`);
      return false;
    });
    if (whole.length === 0) continue;
    pairs += whole.length;
    closed.push({
      lane,
      challenger: whole.map((sides) => sides.challenger!.score),
      incumbent: whole.map((sides) => sides.incumbent!.score),
      ...(isSigned && {
        costs: {
          challenger: whole.map((sides) => sides.challenger!.costs),
          incumbent: whole.map((sides) => sides.incumbent!.costs),
        },
      }),
    });
  }
  return { blocks: closed, pairs, faults: shown(faults), errors: shown(errors) };
}

/** Mean over the samples of challenger - incumbent, in [-1, 1]. */
export function differenceOf({ challenger, incumbent }: Block): number {
  let sum = 0;
  for (let i = 0; i < challenger.length; i++) sum += challenger[i]! - incumbent[i]!;
  return sum / challenger.length;
}
