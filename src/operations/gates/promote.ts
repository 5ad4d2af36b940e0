/** A published adapter put in use: by a gate that accepts it, by force, or as an assignment. */
import { z } from 'zod';
import { checked } from '../../engine/argument-check.js';
import { readJson } from '../../files.js';
import type { GateDecision, GatePolicyInput } from '../../gate/index.js';
import { given } from '../../given.js';
import { PROBATION_PROBLEMS, probation as terms } from '../../registry/events.js';
import { decideGate, openGate, type GateTrials } from '../../registry/gates.js';
import { aliasText, CHAMPION, isAlias, requireAlias, type Slot } from '../../registry/names.js';
import { Registry, type Moved } from '../../registry/registry.js';
import { lookUp, unresolvedError } from '../../registry/resolve.js';
import type { GateState, RegistryState } from '../../registry/state.js';
import { count, modelName, REGISTRY, taskName } from '../members.js';
import { contextOf, memoryOf, PROCESS_BYTES } from '../memory.js';
import { operation, type Context } from '../operation.js';
import { requestSettings } from '../requests.js';
import { measureGate, requireMeasurable } from './measure-gate.js';

/** Result of a promotion; `moved` is null if the gate did not accept. */
export interface Promotion {
  /** Null: the name was moved without a gate. */
  readonly gate: number | null;
  /** Null: nothing was decided by this call. */
  readonly decision: GateDecision | null;
  readonly moved: Moved | null;
}

/** Notice about a new gate that is measured here. */
export interface GateNotice extends Pick<GateState, 'gate' | 'attempt' | 'alpha' | 'incumbent'> {
  readonly text: string;
}

/** In requests: what waits for its turn must mean the same adapter then. */
export const publishedId = z
  .string()
  .regex(/^[0-9a-f]{64}$/, 'expected the full id of a published adapter')
  .describe('id of a published adapter');

const MOST_PROBLEMS = 100_000;
/** Number of problems of a job whose request gives no other way. */
const JOB_PROBLEMS = 100;

const file = z.string().min(1).optional().meta({ local: true });

const settings = z.strictObject({
  adapter: z
    .string()
    .min(1)
    .max(400)
    .describe('name, id or alias of a published adapter')
    .meta({ positional: true }),
  as: z
    .string()
    .min(1)
    .max(400)
    .refine(isAlias, {
      error: ({ input }) =>
        `${JSON.stringify(String(input).slice(0, 100))} is not an alias: give SCENARIO, SCENARIO@ALIAS or SCENARIO/ROLE/ENVIRONMENT@ALIAS`,
    })
    .describe(
      'name to put it in use under: SCENARIO, SCENARIO@ALIAS or SCENARIO/ROLE/ENVIRONMENT@ALIAS; without @ALIAS the champion',
    ),
  problems: count(MOST_PROBLEMS)
    .optional()
    .describe(
      `open a gate and ask both versions up to this many fresh problems of the scenario; a ` +
        `job asks ${JOB_PROBLEMS} by default`,
    ),
  model: modelName
    .optional()
    .describe('base model of both versions, with problems')
    .meta({ defaultText: 'by the name on record' }),
  task: taskName
    .optional()
    .describe('task that generates the problems')
    .meta({ defaultText: 'the scenario' }),
  registry: REGISTRY,
  reason: z.string().max(2000).default('').describe('reason to record'),
  threads: count(1024)
    .optional()
    .describe('CPU threads, with problems; default: the physical cores'),
  open: z
    .boolean()
    .default(false)
    .describe('open a gate, and print its number and the seed of its problems'),
  resume: z
    .boolean()
    .default(false)
    .describe(
      'with problems or open: continue the last gate of this adapter for this name if it is open, or accepted without moving the name',
    )
    .meta({ local: true }),
  policy: file.describe('JSON file of the policy of a new gate (docs/gate.md)'),
  lineage: z
    .enum(['any', 'foreign'])
    .default('any')
    .describe('foreign: a new gate rejects adapters trained on answers of their own lineage'),
  gate: z
    .int()
    .min(1)
    .optional()
    .describe('number of an open gate, or, without problems and evidence, of a gate that accepted'),
  evidence: file.describe('JSON file of the trials of a gate: {seed, trials, guards}'),
  guards: file.describe(
    'with gate and problems: JSON file of the trials of its other guards, from `truth guards`',
  ),
  force: z.boolean().default(false).describe('skip the gate; this is recorded'),
  canary: terms.shape.share
    .optional()
    .describe('share of the keys that get it first, 0 to 1 (`adapters canary`)'),
  probation: terms.shape.problems
    .optional()
    .describe('problems to observe before every key gets it')
    .meta({ defaultText: `${PROBATION_PROBLEMS} with canary` }),
  wait: z
    .number()
    .min(0)
    .max(86_400)
    .default(60)
    .describe('seconds to wait for a running server to load it'),
  transaction: z
    .string()
    .min(1)
    .max(200)
    .optional()
    .describe('name of this transaction; repeating it changes nothing'),
  acceptClock: z
    .boolean()
    .default(false)
    .describe('write even if the clock is behind the last event')
    .meta({ local: true }),
});
type Settings = z.output<typeof settings>;
type Stated = z.input<typeof settings>;

const trialsFile = z.strictObject({
  seed: z.string(),
  trials: z.array(z.unknown()),
  guards: z.record(z.string(), z.array(z.unknown())).optional(),
});
const trialsIn = (path: string, what: string): GateTrials =>
  checked(trialsFile, readJson(path), what) as unknown as GateTrials;

/** Names of the mutually exclusive settings that are given. */
const waysOf = ({ open, evidence, problems, force }: Stated): string[] =>
  Object.entries({ open, evidence, problems, force })
    .filter(([, value]) => value !== undefined && value !== false)
    .map(([name]) => name);

function contradictions(stated: Settings): string[] {
  const { as, gate, policy, guards, problems } = stated;
  const { slot, alias } = requireAlias(as);
  const [name, ways] = [aliasText(slot, alias), waysOf(stated)];
  const [way = gate === undefined ? null : 'gate', other] = ways;
  const begins = gate === undefined && (way === 'open' || way === 'problems');
  const found: readonly (readonly [isWrong: boolean, text: string])[] = [
    [other !== undefined, `${other}: cannot be combined with ${way}`],
    [way === 'evidence' && gate === undefined, 'evidence: requires gate, the number of its gate'],
    [
      gate !== undefined && (way === 'open' || way === 'force'),
      `gate: names an open gate, and cannot be combined with ${way}`,
    ],
    [
      policy !== undefined && !begins,
      'policy: only a new gate takes it, and it cannot change later',
    ],
    [
      guards !== undefined && (problems === undefined || gate === undefined),
      'guards: requires gate and problems, because guards are measured with the seed of an open gate',
    ],
    [way !== null && alias !== CHAMPION, `as: ${name} takes neither a gate nor force`],
    [
      way === null && alias === CHAMPION,
      `as: ${name} requires evidence (problems, or open and then gate and evidence), or force`,
    ],
  ];
  return found.filter(([isWrong]) => isWrong).map(([, text]) => text);
}

interface Place {
  readonly slot: Slot;
  readonly alias: string;
  /** Id of the adapter. */
  readonly id: string;
}

/** State that an interrupted earlier call reached. */
function earlier(
  state: RegistryState,
  { slot, alias, id }: Place,
  transaction: string | undefined,
): { readonly gate?: number | undefined; readonly isDecided: boolean } {
  const done = transaction === undefined ? null : state.transaction(transaction);
  if (done !== null) return { gate: done.gate ?? undefined, isDecided: true };
  const pending = state.pendingGate(slot, alias, id);
  return { gate: pending?.gate, isDecided: pending?.decision === 'accepted' };
}

async function begin(
  registry: Registry,
  { slot, alias, id: challenger }: Place,
  { policy: path, lineage, problems }: Settings,
  tell: Context['tell'],
): Promise<GateState> {
  const policy = path === undefined ? undefined : (readJson(path) as GatePolicyInput);
  if (problems !== undefined) requireMeasurable(policy);
  const begun = await openGate(registry, {
    ...{ slot, alias, challenger, lineage },
    ...given({ policy }),
  });
  const { gate, attempt, alpha, incumbent, seed } = begun;
  const against = incumbent ?? 'the base without an adapter';
  const text = `gate ${gate}: ${challenger} against ${against}; attempt ${attempt}, alpha ${alpha.toFixed(6)}, seed ${seed}`;
  const notice: GateNotice = { text, gate, attempt, alpha, incumbent };
  if (problems !== undefined) tell({ type: 'notice', data: notice });
  return begun;
}

async function decided(
  registry: Registry,
  gate: number,
  { evidence, guards, problems, ...asked }: Settings,
  { signal, tell }: Context,
): Promise<GateDecision | null> {
  if (evidence !== undefined) return decideGate(registry, gate, trialsIn(evidence, 'evidence'));
  if (problems === undefined) return null;
  const { decision } = await measureGate(registry, gate, {
    problems,
    ...given(asked, 'model', 'task', 'threads'),
    ...(guards !== undefined && { guards: trialsIn(guards, 'guards') }),
    signal,
    onProgress: ({ done, total }) =>
      tell({ type: 'progress', data: { stage: 'measuring', done, total, unit: 'problems' } }),
  });
  return decision;
}

async function run(asked: Settings, context: Context): Promise<GateState | Promotion> {
  const { open, problems, canary, probation, transaction, force, reason, wait } = asked;
  const { slot, alias } = requireAlias(asked.as);
  const registry = new Registry({
    ...given({ folder: asked.registry }),
    acceptClock: asked.acceptClock,
  });
  const { state } = await registry.read();
  const entry = lookUp(state, asked.adapter);
  if ('ok' in entry) throw unresolvedError(entry);
  const place = { slot, alias, id: entry.id };
  let [gate, isDecided] = [asked.gate, false];
  if (gate === undefined && (open || problems !== undefined)) {
    if (asked.resume) ({ gate, isDecided } = earlier(state, place, transaction));
    if (gate !== undefined && open) return state.gates[gate - 1]!;
    if (gate === undefined && !isDecided) {
      const begun = await begin(registry, place, asked, context.tell);
      if (open) return begun;
      ({ gate } = begun);
    }
  }
  const decision =
    gate === undefined || isDecided ? null : await decided(registry, gate, asked, context);
  if (decision !== null && decision.decision !== 'accepted')
    return { gate: gate!, decision, moved: null };
  const moved = await registry.move({
    ...{ ...place, force, reason, patienceMs: wait * 1000 },
    ...given({ gate, transaction }),
    ...((canary !== undefined || probation !== undefined) && {
      probation: { share: canary ?? 1, problems: probation ?? PROBATION_PROBLEMS },
    }),
  });
  return { gate: gate ?? null, decision, moved };
}

/**
 * Adds the default number of problems to a request that gives no other way to promote a champion.
 */
const withProblems = (stated: Stated): Stated =>
  stated.gate === undefined &&
  waysOf(stated).length === 0 &&
  requireAlias(stated.as).alias === CHAMPION
    ? { ...stated, problems: JOB_PROBLEMS }
    : stated;

export const promote = operation({
  id: 'adapters promote',
  title: 'Put a published adapter in use: by a gate that accepts it, or by force',
  settings,
  contradictions,
  run,
  job: {
    kind: 'gate',
    isForAdmin: true,
    stated: requestSettings(settings).extend({ adapter: publishedId }),
    /** The problems are of a task of the server: by default of the one that the scenario names. */
    resolve(stated, names) {
      const { model, task, ...asked } = withProblems(stated);
      if (asked.problems === undefined) return asked;
      const { scenario } = requireAlias(asked.as).slot;
      return {
        ...asked,
        model: names.model(model ?? names.allowed.model, 'settings.model'),
        task:
          task === undefined
            ? names.task(scenario, 'settings.as')
            : names.task(task, 'settings.task'),
      };
    },
    local: ({ names, id }, { transaction = id }) => ({
      registry: names.registry('kind'),
      transaction,
    }),
    // Another gate would be another attempt, with less of alpha left.
    again: () => ({ resume: true }),
    memoryBytes: async ({ model }) =>
      model === undefined ? PROCESS_BYTES : memoryOf(model, contextOf(model)),
    shown(stated, { problems }, { allowed }) {
      if (problems === undefined) return stated;
      return { ...stated, problems, model: stated.model ?? allowed.model };
    },
  },
});
