/**
 * The promotion gate held to its promise: campaigns of candidates none of which is better, by a
 * proposer that learns from what it sees, and how often one is promoted all the same; and how often
 * one that is better is.
 */
import { BettingProcess, logDiscordant } from '../src/gate/e-process.js';
import { pairedT } from '../src/gate/paired-t.js';
import { alphaOf, gateTerms, type PairedTTerms, type SignTerms } from '../src/gate/terms.js';
import { sign } from '../src/gate/sign.js';
import { differenceOf, type Block, type Lane } from '../src/gate/trials.js';
import { deriveSeed, Random } from '../src/random.js';
import { studentQuantile } from '../src/statistics/index.js';

export const SCENARIOS = ['null', 'nearTie', 'heavyTail', 'drift', 'clustered'] as const;
export type Scenario = (typeof SCENARIOS)[number];
type Rates = Record<Scenario, number>;

export interface PowerRow {
  /**
   * Pass rate of the challenger less the incumbent's, of which three in ten problems tell them
   * apart.
   */
  readonly effect: number;
  readonly problems: number;
  /** Of the default policy at its first attempt, within so many problems. */
  readonly power: number;
  readonly naive: number;
  readonly peeking: number;
}

export interface GateBench {
  readonly alpha: number;
  readonly campaigns: number;
  /** alpha and three standard deviations of a share of so many campaigns. */
  readonly bound: number;
  readonly candidates: number;
  /** Of each gate at most, and between two looks. */
  readonly problems: number;
  readonly every: number;
  /**
   * Share of campaigns in which a candidate was promoted, by the default policy; none of them is
   * better.
   */
  readonly falsePromotions: Rates;
  /** The higher mean of all problems wins. */
  readonly naive: Rates;
  /** A t test at alpha for a fixed number of samples, looked at all the time. */
  readonly peeking: Rates;
  readonly policies: Record<'e-process' | 'sign' | 'paired-t', Rates>;
  readonly power: readonly PowerRow[];
}

export const CANDIDATES = 8;
export const PROBLEMS = 200;
export const EVERY = 10;
const SAMPLES = 4;
const EFFECTS = [0.05, 0.1, 0.15, 0.2];
const POWER_PROBLEMS = [50, 100, 200, 400, 800];
const DISCORDANT = 0.3;

/** How much a candidate differs from the incumbent, in (0, 1]; the proposer's only choice. */
type Boldness = number;
export type Source = (index: number) => Block;

const single = (challenger: number, incumbent: number): Block => ({
  lane: 'confirmation',
  challenger: [challenger],
  incumbent: [incumbent],
});

/** Problems of one candidate, whose mean difference is at most 0 given everything before. */
export function source(scenario: Scenario, boldness: Boldness, random: Random): Source {
  const chance = (probability: number): number => (random.nextDouble() < probability ? 1 : 0);
  switch (scenario) {
    case 'null':
      return () => single(chance(boldness / 2), chance(boldness / 2));
    case 'nearTie': {
      const deficit = [0, 0.002, 0.01][random.nextInteger(0, 2)]! * boldness;
      return () => single(chance(0.5 - deficit), chance(0.5));
    }
    case 'heavyTail': {
      // a little better nearly always, and now and then nothing: gain (1 - q) = 0.9 q
      const gain = 0.05 * boldness;
      const q = gain / (0.9 + gain);
      return () => single(chance(q) === 1 ? 0 : 0.9 + gain, 0.9);
    }
    case 'drift': {
      // problems grow harder and easier for both
      const phase = random.nextInteger(0, PROBLEMS);
      return (index) => {
        const passes =
          0.1 + (0.8 * Math.abs(((index + phase) % PROBLEMS) - PROBLEMS / 2)) / (PROBLEMS / 2);
        return single(chance(passes), chance(passes));
      };
    }
    case 'clustered':
      // which of the two a problem suits is the problem's; its samples say the same thing again and
      // again
      return () => {
        const tilt = (random.nextDouble() < 0.5 ? 0.45 : -0.45) * boldness;
        const draw = (probability: number): number[] =>
          Array.from({ length: SAMPLES }, () => chance(probability));
        return { lane: 'confirmation', challenger: draw(0.5 + tilt), incumbent: draw(0.5 - tilt) };
      };
  }
}

/**
 * The default policy, problem by problem; what it would do once it has decided against a candidate
 * does not matter here.
 */
export class Gate {
  readonly #logThreshold: number;
  readonly #process: BettingProcess | null;
  #won = 0;
  #lost = 0;

  constructor(measure: 'verdict' | 'score', attempt: number) {
    this.#logThreshold = -Math.log(
      alphaOf(gateTerms.parse({ kind: 'e-process', measure }), attempt),
    );
    this.#process = measure === 'score' ? new BettingProcess() : null;
  }

  add(difference: number): void {
    this.#process?.add(difference);
    if (difference === 1) this.#won++;
    if (difference === -1) this.#lost++;
  }

  accepts(): boolean {
    return (this.#process?.logE() ?? logDiscordant(this.#won, this.#lost)) >= this.#logThreshold;
  }
}

/**
 * A t test of samples as if each were its own problem, at the same level whenever somebody looks.
 */
class Peeking {
  static readonly #critical: number[] = [];
  #n = 0;
  #sum = 0;
  #squares = 0;

  constructor(readonly alpha: number) {}

  add({ challenger, incumbent }: Block): void {
    for (let i = 0; i < challenger.length; i++) {
      const difference = challenger[i]! - incumbent[i]!;
      this.#n++;
      this.#sum += difference;
      this.#squares += difference * difference;
    }
  }

  accepts(): boolean {
    if (this.#n < 2 || this.#sum <= 0) return false;
    const variance = Math.max(0, this.#squares - (this.#sum * this.#sum) / this.#n) / (this.#n - 1);
    const critical = (Peeking.#critical[this.#n] ??= studentQuantile(this.alpha / 2, this.#n - 1));
    return this.#sum > critical * Math.sqrt(variance * this.#n);
  }
}

type Method = 'e-process' | 'sign' | 'paired-t' | 'naive' | 'peeking';
const METHODS: readonly Method[] = ['e-process', 'sign', 'paired-t', 'naive', 'peeking'];

export const measureOf = (scenario: Scenario): 'verdict' | 'score' =>
  scenario === 'heavyTail' || scenario === 'clustered' ? 'score' : 'verdict';

const SIGN = gateTerms.parse({ kind: 'sign', margin: 0.01 }) as SignTerms;
const PAIRED_T = gateTerms.parse({ kind: 'paired-t' }) as PairedTTerms;

/**
 * The paired t of a trainer: its screen, then its confirmation two problems at a time, then what is
 * held out.
 */
function pairedTAccepts(blocks: readonly Block[], attempt: number): boolean {
  const alpha = alphaOf(PAIRED_T, attempt);
  const lane = (name: Lane, from: number, count: number): Block[] =>
    blocks.slice(from, from + count).map((block) => ({ ...block, lane: name }));
  const screen = lane('screen', 0, PAIRED_T.screen);
  const heldOut = lane('held-out', PAIRED_T.screen + PAIRED_T.most, PAIRED_T.heldOut);
  for (let n = PAIRED_T.least; n <= PAIRED_T.most; n += 2) {
    const { state } = pairedT(
      [...screen, ...lane('confirmation', PAIRED_T.screen, n), ...heldOut],
      PAIRED_T,
      alpha,
    );
    if (state === 'shown') return true;
    if (state === 'refuted') return false;
  }
  return false;
}

/** The methods that promoted one of eight candidates. */
function campaign(scenario: Scenario, alpha: number, random: Random): Set<Method> {
  const promoted = new Set<Method>();
  let boldness: Boldness = 0.5;
  for (let attempt = 1; attempt <= CANDIDATES; attempt++) {
    const draw = source(scenario, boldness, random);
    const gate = new Gate(measureOf(scenario), attempt);
    const peeking = new Peeking(alpha);
    const first: Block[] = [];
    let sum = 0;
    for (let index = 0; index < PROBLEMS; index++) {
      const block = draw(index);
      const difference = differenceOf(block);
      sum += difference;
      gate.add(difference);
      peeking.add(block);
      if (index < FIRST) first.push(block);
      if ((index + 1) % EVERY === 0) {
        if (!promoted.has('e-process') && gate.accepts()) promoted.add('e-process');
        if (!promoted.has('peeking') && peeking.accepts()) promoted.add('peeking');
      }
    }
    if (sum > 0) promoted.add('naive');
    if (sign(first.slice(0, SIGN.blocks), SIGN, alphaOf(SIGN, attempt)).state === 'shown')
      promoted.add('sign');
    if (pairedTAccepts(first, attempt)) promoted.add('paired-t');
    // the proposer keeps what looked well and goes further in it, and starts afresh from what did
    // not
    boldness = sum > 0 ? Math.min(1, boldness * 1.3) : 0.2 + 0.8 * random.nextDouble();
  }
  return promoted;
}

/** Problems that the policies with a fixed number need. */
const FIRST = Math.max(SIGN.blocks, PAIRED_T.screen + PAIRED_T.most + PAIRED_T.heldOut);

/**
 * Shares of gates that accept a challenger that is better by `effect`, by the number of problems.
 */
function powerOf(effect: number, gates: number, alpha: number, seed: bigint): PowerRow[] {
  const rows = POWER_PROBLEMS.map((problems) => ({
    effect,
    problems,
    power: 0,
    naive: 0,
    peeking: 0,
  }));
  for (let index = 0; index < gates; index++) {
    const random = new Random(
      deriveSeed({
        runSeed: seed,
        purpose: 'gate power',
        iteration: index,
        problemId: String(effect),
        sample: 0,
      }),
    );
    const gate = new Gate('verdict', 1);
    const peeking = new Peeking(alpha);
    let [sum, accepted, peeked] = [0, false, false];
    for (let problem = 1; problem <= POWER_PROBLEMS.at(-1)!; problem++) {
      const draw = random.nextDouble();
      const difference = draw < (DISCORDANT + effect) / 2 ? 1 : draw < DISCORDANT ? -1 : 0;
      sum += difference;
      gate.add(difference);
      peeking.add(single(Math.max(0, difference), Math.max(0, -difference)));
      if (problem % EVERY !== 0) continue;
      accepted ||= gate.accepts();
      peeked ||= peeking.accepts();
      const row = rows.find(({ problems }) => problems === problem);
      if (row === undefined) continue;
      if (accepted) row.power++;
      if (peeked) row.peeking++;
      if (sum > 0) row.naive++;
    }
  }
  return rows.map((row) => ({
    ...row,
    power: row.power / gates,
    naive: row.naive / gates,
    peeking: row.peeking / gates,
  }));
}

export function benchGate({
  campaigns,
  seed,
}: {
  readonly campaigns: number;
  readonly seed: bigint;
}): GateBench {
  const { alpha } = gateTerms.parse({ kind: 'e-process' });
  const counts = Object.fromEntries(
    METHODS.map((method) => [
      method,
      Object.fromEntries(SCENARIOS.map((scenario) => [scenario, 0])),
    ]),
  ) as Record<Method, Rates>;
  for (const scenario of SCENARIOS)
    for (let index = 0; index < campaigns; index++) {
      const drawn = deriveSeed({
        runSeed: seed,
        purpose: 'gate',
        iteration: index,
        problemId: scenario,
        sample: 0,
      });
      for (const method of campaign(scenario, alpha, new Random(drawn))) counts[method][scenario]++;
    }
  const rates = (method: Method): Rates =>
    Object.fromEntries(
      SCENARIOS.map((scenario) => [scenario, counts[method][scenario] / campaigns]),
    ) as Rates;
  return {
    alpha,
    campaigns,
    bound: alpha + 3 * Math.sqrt((alpha * (1 - alpha)) / campaigns),
    candidates: CANDIDATES,
    problems: PROBLEMS,
    every: EVERY,
    falsePromotions: rates('e-process'),
    naive: rates('naive'),
    peeking: rates('peeking'),
    policies: {
      'e-process': rates('e-process'),
      sign: rates('sign'),
      'paired-t': rates('paired-t'),
    },
    power: EFFECTS.flatMap((effect) => powerOf(effect, campaigns, alpha, seed)),
  };
}
