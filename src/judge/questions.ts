/**
 * Reads a run's questions to its decider again: prompt and menu are rendered from the log, the
 * choice is read from the logged reply, and the decisions are those of the choices.
 */
import { asJson, canonicalJson } from '../canonical-json.js';
import { IsoproError } from '../errors.js';
import type { LogRecord } from '../log/read.js';
import type { DecisionContext } from '../monitor/context.js';
import { acts, DECISION_WINDOW, type Decision } from '../monitor/decision.js';
import { defer, menuOf, type MenuOption } from '../monitor/menu.js';
import {
  deciderCommitment,
  readerOf,
  type DeciderCommitment,
} from '../monitor/policies/commitment.js';
import {
  questionDigests,
  SOURCES,
  type AskedQuestion,
  type Question,
  type Reader,
  type Source,
} from '../monitor/question.js';
import type { RuleConfig, RuleId } from '../monitor/rules.js';
import { isQuestion, readQuestion } from '../run-folder/monitor-records.js';
import { scriptedOption } from '../trainees/lora/scripted.js';
import { LORA, type LoraTypes } from '../trainees/lora/trainee.js';
import { failing } from './hard-fail.js';
import type { ProcessAudit, ProcessRecord } from './obligations.js';

const fail = failing('rule_recomputation');

type Process = ProcessRecord<LoraTypes>;

/** A question of the log, rendered again. */
export interface ReadQuestion {
  readonly asked: AskedQuestion<LoraTypes>;
  readonly question: Question<LoraTypes>;
}

export interface CheckedQuestions {
  readonly commitment: DeciderCommitment;
  readonly reader: Reader<LoraTypes>;
  readonly seed: bigint;
  readonly questions: readonly ReadQuestion[];
}

/** Figures of the questions that one source answered. */
export interface SourceFigures {
  readonly source: Source;
  readonly decisions: number;
  /** Of them, answered by a reply that was recorded before. */
  readonly cached: number;
  /** Obligations that its decisions answered, and violations in these. */
  readonly obligations: number;
  readonly violations: number;
  /** 1 − violations/obligations, at least 0; null without an obligation. */
  readonly processScore: number | null;
}

export interface DeciderFigures {
  readonly kind: DeciderCommitment['kind'];
  readonly sources: readonly SourceFigures[];
  /** Replies that name no option, divided by the replies; null if there was none. */
  readonly invalidRate: number | null;
  /** Mean agreement over orders or votes; null if none was measured. */
  readonly agreement: number | null;
  readonly tokens: number;
  readonly seconds: number;
  /** Null if nobody stated a price. */
  readonly cost: number | null;
}

/** What came of asking the base model again. */
export interface AskedAgain {
  readonly asked: number;
  /** Of them, answered as in the run. */
  readonly same: number;
  /** Why none was asked; null otherwise. */
  readonly reason: string | null;
}

/** Figures, and what came of asking again; null if nothing was to be asked again. */
export type JudgedDeciders = DeciderFigures & { readonly askedAgain: AskedAgain | null };

/** The situation in which a question was asked, as the log has it. */
function contextOf(
  { evaluations, history, decisions, config }: Process,
  { iteration, rule, situation: { settings } }: AskedQuestion<LoraTypes>,
): DecisionContext<LoraTypes> {
  const now = history.find((each) => each.iteration === iteration)!;
  const { executed: _, ...measurements } = now;
  return {
    rule,
    evaluations: evaluations.filter((each) => each.iteration <= iteration),
    settings,
    snapshots: LORA.trainee.snapshots(settings),
    measurements,
    history: history.filter((each) => each.iteration < iteration),
    decisions: decisions.filter((each) => each.iteration < iteration),
    playbook: LORA.ruleSet.playbook(config as RuleConfig),
  };
}

const same = (a: unknown, b: unknown): boolean => JSON.stringify(a) === JSON.stringify(b);

/** The option that follows from the logged reply; throws where the record says another. */
function checkAnswer(
  gseq: number,
  { asked, question }: ReadQuestion,
  reader: Reader<LoraTypes>,
): MenuOption<LoraTypes> {
  const { reply, failure } = asked;
  const reading =
    failure === null || failure.code === 'REPLY_INVALID'
      ? reader.read(question, reply)
      : { choice: null, reason: failure.reason };
  const own = question.menu.find(({ id }) => id === reading.choice);
  const option = own ?? scriptedOption(question.context, question.menu);
  const expected = {
    choice: option.id,
    source: own === undefined ? 'fallback' : reader.source,
    margin: reading.choice === null ? null : reading.margin,
    agreement: reading.choice === null ? null : reading.agreement,
  };
  for (const [member, value] of Object.entries(expected)) {
    const logged = asked[member as keyof typeof expected];
    if (!same(logged, value))
      fail(
        `the question of record ${gseq} has ${member} ${JSON.stringify(logged)}, but its reply is read as ${JSON.stringify(value)}`,
      );
  }
  if ((own === undefined) !== (failure !== null))
    fail(
      `the question of record ${gseq} does not say why the script answered it, or says it in vain`,
    );
  return option;
}

/** Decisions of one iteration against the questions before them. */
function checkDecisions(
  decided: readonly { readonly gseq: number; readonly decision: Decision }[],
  options: ReadonlyMap<RuleId, MenuOption<LoraTypes>>,
  iteration: number,
): void {
  let acting: RuleId | null = null;
  for (const { gseq, decision } of decided) {
    const [rule] = decision.cites;
    const option = options.get(rule);
    const expected =
      option?.decision ??
      (acting === null ? null : defer(rule, iteration, `deferred_to_${acting}`));
    if (expected === null)
      fail(`the decision on ${rule} in record ${gseq} has no question before it`);
    if (textOf(decision) !== textOf(expected as Decision))
      fail(`the decision on ${rule} in record ${gseq} is not the one that was chosen`);
    if (acts(decision)) acting = rule;
  }
  for (const [rule, { id, decision }] of options)
    if (acts(decision) && !decided.some(({ decision: { cites } }) => cites[0] === rule))
      fail(`${id} was chosen for ${rule} in iteration ${iteration}, but no decision says so`);
}

/** A log has the members of a record in an order of its own. */
const textOf = (decision: Decision): string => canonicalJson(asJson(decision));

/** Names of policies that choose from a menu: they have a commitment. */
const DECIDERS = /^(random|table|human|model:.*)$/s;

/**
 * Checks every live question and every decision of a run whose policy chooses from a menu.
 * @param records live ones, in order
 * @param start the run configuration of the genesis, unchecked
 * @returns null for a run with another policy
 * @throws HardFail
 */
export function checkQuestions(
  records: readonly LogRecord[],
  process: Process,
  start: { readonly policy?: unknown; readonly decider?: unknown; readonly settings?: unknown },
): CheckedQuestions | null {
  const posed = records.filter(isQuestion);
  if (start.decider === undefined) {
    if (posed.length > 0)
      fail(`record ${posed[0]!.gseq} is a question, but the run committed to no decider`);
    if (typeof start.policy === 'string' && DECIDERS.test(start.policy))
      fail(`the run does not say what its policy ${start.policy} depends on`);
    return null;
  }
  const commitment = deciderCommitment.safeParse(start.decider);
  if (!commitment.success) return fail('what the run committed to of its decider is unreadable');
  const written = (start.settings as { seed?: unknown } | undefined)?.seed;
  const seed = BigInt(typeof written === 'string' && /^\d{1,20}$/.test(written) ? written : 0);
  const reader = readerOrFail(commitment.data, seed);
  const questions: ReadQuestion[] = [];
  let options = new Map<RuleId, MenuOption<LoraTypes>>();
  let decided: { gseq: number; decision: Decision }[] = [];
  let now = -1;
  const close = (): void => {
    checkDecisions(decided, options, now);
    [options, decided] = [new Map(), []];
  };
  for (const record of records) {
    const { gseq, stream, payload } = record;
    if (stream === 'rule_evals') {
      close();
      now = Number(payload.iteration);
    } else if (isQuestion(record)) {
      const asked = readQuestion(record, fail) as AskedQuestion<LoraTypes>;
      if (asked.iteration !== now || decided.length > 0 || options.has(asked.rule))
        fail(`the question of record ${gseq} is not in its place`);
      const read = renderAgain(gseq, process, asked, reader);
      options.set(asked.rule, checkAnswer(gseq, read, reader));
      questions.push(read);
    } else if (stream === 'decisions' && payload.kind === 'decision') {
      const { kind: _, iteration: __, ...decision } = payload;
      decided.push({ gseq, decision: decision as unknown as Decision });
    }
  }
  close();
  return { commitment: commitment.data, reader, seed, questions };
}

function readerOrFail(commitment: DeciderCommitment, seed: bigint): Reader<LoraTypes> {
  try {
    return readerOf<LoraTypes>(commitment, seed);
  } catch (error) {
    if (error instanceof IsoproError) return fail(error.message);
    throw error;
  }
}

function renderAgain(
  gseq: number,
  process: Process,
  asked: AskedQuestion<LoraTypes>,
  reader: Reader<LoraTypes>,
): ReadQuestion {
  const context = contextOf(process, asked);
  const { fired } = context.evaluations.at(-1)!;
  if (!fired.includes(asked.rule))
    fail(`the question of record ${gseq} is about ${asked.rule}, which had not fired`);
  let question: Question<LoraTypes>;
  try {
    const menu = menuOf(LORA, context);
    question = { context, menu, prompt: reader.render(context, menu) };
  } catch {
    return fail(`the settings in record ${gseq} are not those of a trainer`);
  }
  const ids = question.menu.map(({ id }) => id);
  if (!same(ids, asked.menu))
    fail(`the menu of record ${gseq} is not the one that its situation gives: ${ids.join('; ')}`);
  const digests = questionDigests(reader, question.prompt);
  if (digests.prompt !== asked.prompt || digests.key !== asked.key)
    fail(`the prompt of record ${gseq} is not the one that its situation gives`);
  return { asked, question };
}

/** What the decider has done, by who answered: a fallback's merit is not the model's. */
export function deciderFigures(
  { commitment, questions }: CheckedQuestions,
  { obligations, violations }: ProcessAudit,
): DeciderFigures {
  const asked = questions.map((each) => each.asked);
  // an obligation is answered by whoever was asked last about it: a deferral first, then a remedy
  const answerers = obligations.map(({ rule, opened }) => {
    const within = asked.filter(
      (each) =>
        each.rule === rule &&
        each.iteration >= opened &&
        each.iteration <= opened + DECISION_WINDOW,
    );
    const source = (within.find(({ choice }) => !/^defer /.test(choice)) ?? within[0])?.source;
    const wrong = violations.some(
      (each) =>
        each.rule === rule &&
        each.iteration >= opened &&
        each.iteration <= opened + DECISION_WINDOW,
    );
    return { source, wrong };
  });
  const sources = SOURCES.flatMap((source): SourceFigures[] => {
    const own = asked.filter((each) => each.source === source);
    if (own.length === 0) return [];
    const answered = answerers.filter((each) => each.source === source);
    const wrong = answered.filter((each) => each.wrong).length;
    return [
      {
        source,
        decisions: own.length,
        cached: own.filter(({ cached }) => cached).length,
        obligations: answered.length,
        violations: wrong,
        processScore: answered.length === 0 ? null : 1 - wrong / answered.length,
      },
    ];
  });
  const replied = asked.filter(
    ({ failure }) => failure === null || failure.code === 'REPLY_INVALID',
  );
  const agreements = asked.flatMap(({ agreement }) => (agreement === null ? [] : [agreement]));
  const costs = asked.map(({ cost }) => cost);
  return {
    kind: commitment.kind,
    sources,
    invalidRate:
      replied.length === 0
        ? null
        : replied.filter(({ failure }) => failure !== null).length / replied.length,
    agreement:
      agreements.length === 0
        ? null
        : agreements.reduce((sum, value) => sum + value, 0) / agreements.length,
    tokens: asked.reduce((sum, { tokens }) => sum + tokens.prompt + tokens.sampled, 0),
    seconds: asked.reduce((sum, { seconds }) => sum + seconds, 0),
    cost: costs.some((cost) => cost === null)
      ? null
      : costs.reduce<number>((sum, cost) => sum + cost!, 0),
  };
}
