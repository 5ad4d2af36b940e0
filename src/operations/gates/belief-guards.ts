/**
 * Guards of beliefs of a gate on record (`truth-seeking/training/guards`): both of its versions
 * reason about the same questions, which are drawn with the gate's seed of the part that nothing is
 * trained on, each in a run with a signed log. Trials follow from the two runs.
 */
import { hash } from 'node:crypto';
import { existsSync } from 'node:fs';
import path from 'node:path';
import { z } from 'zod';
import { asJson, canonicalJson, type Json } from '../../canonical-json.js';
import { writeFileAtomically } from '../../engine/atomic-file.js';
import { loadModel } from '../../engine/model.js';
import { modelOfRecord } from '../../engine/model-files.js';
import { IsoproError } from '../../errors.js';
import { makeFolder, readJson, readText } from '../../files.js';
import { given } from '../../given.js';
import type { GatePolicy, TrialInput } from '../../gate/index.js';
import { deriveSeed } from '../../random.js';
import { jsonDifferences } from '../../run-folder/manifest.js';
import { BASE_VERSION, type GateTrials } from '../../registry/gates.js';
import type { Registry } from '../../registry/registry.js';
import { requireFit, servingOf } from '../../registry/resolve.js';
import { isOpen, type GateState } from '../../registry/state.js';
import { sha256 } from '../../registry/record.js';
import type { BeliefPath } from '../../truth-seeking/beliefs/belief.js';
import { beliefPath, type Readout } from '../../truth-seeking/beliefs/readout.js';
import { localReasoner } from '../../truth-seeking/local-reasoner.js';
import { targetOf, type BinaryProblem } from '../../truth-seeking/problem.js';
import { readTruthConfig, type TruthConfig } from '../../truth-seeking/run/config.js';
import { isTruthRun, readTruthRun, type TruthRun } from '../../truth-seeking/run/folder.js';
import {
  judgeTruthRun,
  type TruthJudgement,
  type TruthJudgeOptions,
} from '../../truth-seeking/run/judge.js';
import { drawProblems } from '../../truth-seeking/run/plan.js';
import type { Setup } from '../../truth-seeking/run/records.js';
import { runTruth, type TruthProgress } from '../../truth-seeking/run/evaluation-run.js';
import { STRATEGIES } from '../../truth-seeking/strategies/strategy.js';
import {
  areAbout,
  beliefScores,
  beliefTrials,
  BLOCK,
  CEILINGS,
  GUARD_NAMES,
  onSameQuestions,
  SLOPES,
  type BeliefEvidence,
  type GuardName,
} from '../../truth-seeking/training/guards.js';
import { problemsUsed } from './measure-versions.js';

const FORMAT = 'isopro.truth-guards.v1';
const SIDES = ['challenger', 'incumbent'] as const;
type Side = (typeof SIDES)[number];

const version = z.strictObject({ id: z.string().min(1), adapter: sha256.nullable() });
const manifest = z.strictObject({
  format: z.literal(FORMAT),
  gate: z.int().min(1),
  /** The gate's own, 64 hex digits. */
  seed: sha256,
  /**
   * Measurements that its policy requires; `score`: the policy uses scores, which are 1 minus the
   * Brier score.
   */
  asks: z.array(z.enum([...GUARD_NAMES, 'score'])).min(1),
  challenger: version,
  incumbent: version,
  /** Ids of questions that the seed would draw and another gate has asked: they are passed over. */
  without: z.array(sha256).default([]),
  /** Form in which slopes become trials. */
  slopes: z.enum(SLOPES).default('absolute'),
});
type Manifest = z.output<typeof manifest>;

const files = (folder: string) => ({
  manifest: path.join(folder, 'gate.json'),
  evidence: path.join(folder, 'evidence.json'),
});

/** True for a folder that `truth guards` wrote. */
export const isBeliefGuards = (folder: string): boolean =>
  existsSync(files(folder).manifest) && SIDES.every((side) => isTruthRun(path.join(folder, side)));

/** @throws IsoproError FILE_UNREADABLE, RUN_MANIFEST_INVALID */
function readManifest(folder: string): Manifest {
  const found = manifest.safeParse(readJson(files(folder).manifest));
  if (found.success) return found.data;
  throw new IsoproError(
    'RUN_MANIFEST_INVALID',
    `${files(folder).manifest}: ${z.prettifyError(found.error)}`,
  );
}

export interface BeliefQuestions {
  readonly domain: readonly string[];
  readonly mode: string;
  /** Number of problems per domain. */
  readonly problems: number;
  readonly maxTokens: number;
}

const isOfBeliefs = (name: string): name is GuardName =>
  (GUARD_NAMES as readonly string[]).includes(name);

/**
 * Measurements that a policy requires.
 * @throws IsoproError INVALID_ARGUMENT where it asks in another way, or for nothing
 */
function asksOf(
  policy: GatePolicy,
  { domain, problems }: Pick<BeliefQuestions, 'domain' | 'problems'>,
): Manifest['asks'] {
  const guards = policy.guards.filter(({ name }) => isOfBeliefs(name));
  const wrong = (what: string): never => {
    throw new IsoproError('INVALID_ARGUMENT', what, {
      remedy: 'Open a gate with another policy; docs/commands/truth.md has one.',
    });
  };
  for (const { name, ceiling, ...guard } of guards) {
    const [most, own] = [
      CEILINGS[name as GuardName],
      domain.length * (name === 'slope' ? Math.floor(problems / BLOCK) : problems),
    ];
    if (ceiling !== most) wrong(`guard ${name}: it is a cost, so its ceiling must be ${most}`);
    if (guard.kind === 'non-inferiority' && own > guard.most)
      wrong(`guard ${name}: its policy allows ${guard.most} trials, but ${own} would be measured`);
    if (own === 0)
      wrong(`guard ${name}: a slope takes ${BLOCK} questions, but only ${problems} are asked`);
  }
  const isScored = policy.kind !== 'e-process' || policy.measure === 'score';
  const asks = [
    ...guards.map(({ name }) => name as GuardName),
    ...(isScored ? (['score'] as const) : []),
  ];
  return asks.length > 0
    ? asks
    : wrong(`the policy has no belief guard (${GUARD_NAMES.join(', ')}) and does not use scores`);
}

/**
 * Seed of both runs: 64 of the gate's 256 bits, as for the problems of its task. Runs with signed
 * slopes have a different seed than earlier runs, whose guard is weaker, so the signed logs prove
 * which kind a folder holds.
 */
const seedOf = ({ gate, seed, slopes }: Pick<Manifest, 'gate' | 'seed' | 'slopes'>): bigint =>
  deriveSeed({
    runSeed: BigInt(`0x${seed.slice(0, 16)}`),
    purpose: slopes === 'signed' ? 'truth guards, signed slopes' : 'truth guards',
    iteration: gate,
    problemId: '',
    sample: 0,
  });

const FRAMED: readonly Manifest['asks'][number][] = ['opinion-shift', 'quality-change'];
/**
 * Ids of questions that the seed draws and other gates have asked. Questions are drawn until none
 * of them was asked.
 * @throws IsoproError INVALID_ARGUMENT if there are too few fresh ones
 */
function askedElsewhere(
  config: Pick<TruthConfig, 'domain' | 'seed' | 'split' | 'problems'>,
  isAsked: (questionId: string) => boolean,
): string[] {
  const without = new Set<string>();
  for (const domain of config.domain) {
    const all = drawProblems(domain, config).length;
    for (;;) {
      const drawn = drawProblems(domain, { ...config, without: [...without] });
      if (drawn.length < all)
        throw new IsoproError(
          'INVALID_ARGUMENT',
          `${domain} needs ${all} questions that no other gate asked, but only ${drawn.length} were found`,
        );
      const asked = drawn.filter(({ id }) => isAsked(id));
      if (asked.length === 0) break;
      for (const { id } of asked) without.add(id);
    }
  }
  return [...without].sort();
}

/**
 * Strategies to score, which determine the questions: users with opinions only if a guard needs
 * them.
 */
const evalOf = (asks: Manifest['asks']): string[] =>
  ['accuracy', ...(asks.some((each) => FRAMED.includes(each)) ? ['sycophancy'] : [])].map((each) =>
    STRATEGIES.format(STRATEGIES.parse(each)),
  );

/**
 * Beliefs of a version by domain: in the order of the questions, which is that of the other version
 * too.
 */
function evidenceOf({ state, start }: TruthRun, name: string): BeliefEvidence[] {
  const verifier = hash(
    'sha256',
    canonicalJson({ code: start.code, beliefSystem: start.config.beliefSystem }),
  );
  const pathAt = (setup: Setup, id: string): BeliefPath | null => {
    const made = state.at(setup, id);
    const readout =
      made?.kind === 'trajectory'
        ? (state.beliefs(made.trajectory.id)?.readout as Readout | undefined)
        : undefined;
    const found = readout === undefined ? 'none' : beliefPath(readout);
    return typeof found === 'string' ? null : found;
  };
  const last = (setup: Setup, id: string | undefined): number | null =>
    id === undefined ? null : (pathAt(setup, id)?.beliefs.at(-1) ?? null);
  return state.setups.map((setup): BeliefEvidence => {
    const own = [...state.problems.values()].filter(({ domain }) => domain === setup.domain);
    const plain = own.flatMap(({ problem, framed }) =>
      framed === undefined && problem.kind === 'binary' ? [problem] : [],
    );
    const userFor = (of: BinaryProblem, option: 0 | 1): string | undefined =>
      own.find(
        ({ framed, problem }) =>
          framed?.of === of.id && problem.kind === 'binary' && problem.userOption === option,
      )?.problem.id;
    const asked = plain.filter((problem) => userFor(problem, 0) !== undefined);
    return {
      ...{ version: name, domain: setup.domain, verifier, epoch: start.code.version },
      paths: plain.map((problem) => ({
        problemId: problem.id,
        path: pathAt(setup, problem.id),
        target: targetOf(problem),
      })),
      asked: asked.map((problem) => {
        const alone = last(setup, problem.id);
        const userFor0 = last(setup, userFor(problem, 0));
        const userFor1 = last(setup, userFor(problem, 1));
        const isRead = alone !== null && userFor0 !== null && userFor1 !== null;
        const thrice = isRead ? { alone, userFor0, userFor1 } : null;
        return { problemId: problem.id, thrice, target: targetOf(problem) };
      }),
    };
  });
}

/** Trials of both versions, for `decideGate`. */
function trialsOf(folder: string, { seed, asks, slopes, ...of }: Manifest): GateTrials {
  const [challenger, incumbent] = SIDES.map((side) =>
    evidenceOf(readTruthRun(path.join(folder, side)), of[side].id),
  ) as [BeliefEvidence[], BeliefEvidence[]];
  const both = challenger.flatMap((own) => {
    const other = incumbent.find(({ domain }) => domain === own.domain);
    return other === undefined ? [] : onSameQuestions([own, other]);
  });
  const byName = both.map((each) => beliefTrials(each, { slopes }));
  const guards = asks.filter((each): each is GuardName => each !== 'score');
  return {
    seed,
    trials: asks.includes('score') ? both.flatMap(beliefScores) : [],
    guards: Object.fromEntries(
      guards.map((name): [string, TrialInput[]] => [name, byName.flatMap((of) => of[name])]),
    ),
  };
}

const evidenceText = (trials: GateTrials): string => `${canonicalJson(asJson(trials))}\n`;

export interface MeasureBeliefsOptions extends BeliefQuestions {
  /** The base; default: by the name in the challenger's record. */
  readonly model?: string;
  readonly threads?: number;
  readonly signer?: TruthConfig['signer'];
  readonly home?: string;
  readonly signal?: AbortSignal;
  readonly onProgress?: (side: Side, progress: TruthProgress) => void;
}

export interface MeasuredBeliefs {
  readonly folder: string;
  /** The file that `adapters promote --evidence` and `--guards` take. */
  readonly evidence: string;
  /** Trials by what they are of; `score` are the gate's own. */
  readonly counts: Readonly<Record<string, number>>;
  /**
   * Trials without a figure, which neither version is at fault for: a gate is not decided with
   * them.
   */
  readonly errors: number;
}

async function gateOf(
  registry: Registry,
  number: number,
): Promise<{ readonly gate: GateState & { seed: string }; readonly of: Manifest }> {
  const { entries, gates } = (await registry.read()).state;
  const gate = gates[number - 1];
  if (gate?.seed == null)
    throw new IsoproError('REGISTRY_REFUSED', `there is no gate ${number} with a seed`);
  const adapterOf = (id: string | null) =>
    id === null ? null : entries.get(id)!.record.adapter.sha256;
  const of: Manifest = {
    ...{ format: FORMAT, gate: number, seed: gate.seed },
    ...{ asks: ['score'], without: [], slopes: 'signed' },
    challenger: { id: gate.challenger, adapter: adapterOf(gate.challenger) },
    incumbent: { id: gate.incumbent ?? BASE_VERSION, adapter: adapterOf(gate.incumbent) },
  };
  return { gate: gate as GateState & { seed: string }, of };
}

/**
 * Measures both versions of an open gate, or continues.
 * @throws IsoproError REGISTRY_REFUSED where the gate is not open; INVALID_ARGUMENT for a policy
 *   that asks for nothing of this, or in another way; ADAPTER_MISMATCH, ADAPTER_CORRUPT; of
 *   loadModel and runTruth
 */
export async function measureBeliefs(
  registry: Registry,
  number: number,
  out: string,
  { domain, mode, problems, maxTokens, ...options }: MeasureBeliefsOptions,
): Promise<MeasuredBeliefs> {
  const { gate, of: known } = await gateOf(registry, number);
  if (!isOpen(gate)) throw new IsoproError('REGISTRY_REFUSED', `gate ${number} is not open`);
  const reading = await registry.read();
  const { entries } = reading.state;
  const { base } = entries.get(gate.challenger)!.record;
  const { threads = 0, signal, signer, home, onProgress } = options;
  const asks = asksOf(gate.policy, { domain, problems });
  const { manifest: file, evidence } = files(out);
  const begun = existsSync(file) ? readManifest(out) : null;
  const settings = readTruthConfig({
    ...{ domain: [...domain], mode: [mode], problems, maxTokens, eval: evalOf(asks) },
    ...{ seed: seedOf(known).toString(), threads, model: base.name, ...given({ signer }) },
  });
  // whatever others have asked since it was begun
  const without =
    begun?.without ?? askedElsewhere(settings, areAbout(problemsUsed(registry, reading, number)));
  const of: Manifest = { ...known, asks, without };
  const config = without.length === 0 ? settings : { ...settings, without };
  makeFolder(out);
  if (begun !== null) {
    const differences = jsonDifferences(asJson(begun), asJson(of));
    if (differences.length > 0)
      throw new IsoproError(
        'RUN_DIFFERS',
        `${out} was started for a gate with different values of ${differences.join(', ')}`,
      );
  } else await writeFileAtomically(file, [Buffer.from(`${JSON.stringify(of, null, 2)}\n`)]);
  await using model = await loadModel(options.model ?? (await modelOfRecord(base.name)), {
    ...{ fixedThreads: true, ...(threads !== 0 && { threads }), ...given({ signal }) },
  });
  for (const side of SIDES) {
    const entry = of[side].adapter === null ? null : entries.get(of[side].id)!;
    if (entry !== null) requireFit(entry.record, await servingOf(model));
    using adapter =
      entry === null ? null : await model.loadAdapter(await registry.requireBytes(entry.record));
    const evaluated = await localReasoner(model, { adapter, seed: BigInt(config.seed) });
    await runTruth(entry === null ? config : { ...config, adapter: `${of[side].adapter}.gguf` }, {
      out: path.join(out, side),
      policies: { evaluated, predictor: null },
      ...given({ signal, home }),
      onProgress: (progress) => onProgress?.(side, progress),
    });
  }
  const trials = trialsOf(out, of);
  await writeFileAtomically(evidence, [Buffer.from(evidenceText(trials))]);
  const all = { ...(trials.trials.length > 0 && { score: trials.trials }), ...trials.guards };
  return {
    ...{ folder: out, evidence },
    counts: Object.fromEntries(Object.entries(all).map(([name, each]) => [name, each.length])),
    errors: Object.values(all).reduce(
      (sum, each) => sum + each.filter(({ error }) => error !== undefined).length,
      0,
    ),
  };
}

export interface BeliefGuardsJudgement {
  readonly format: 'isopro.truth-guards-judge.v1';
  readonly folder: string;
  readonly gate: number;
  /** `not_verified`: nothing is wrong, and no registry here has the gate. */
  readonly verdict: 'pass' | 'not_ended' | 'hard_fail' | 'not_verified';
  readonly failure: string | null;
  readonly challenger: TruthJudgement;
  readonly incumbent: TruthJudgement;
}

/** Fault of the two runs against the gate; null if there is none. */
function faultOf(folder: string, of: Manifest): string | null {
  const runs = SIDES.map((side) => readTruthRun(path.join(folder, side)));
  const configs = runs.map(({ start }): Json => {
    const { adapter: _, ...config } = start.config;
    return asJson({ ...config, domains: start.domains, code: start.code });
  });
  const differences = jsonDifferences(configs[0]!, configs[1]!);
  if (differences.length > 0)
    return `the two versions were asked with different values of ${differences.join(', ')}`;
  const identities = runs.map(
    ({ start }) => start.policy.identity as Readonly<Record<string, Json>>,
  );
  if (identities[0]!.model !== identities[1]!.model) return 'the two versions use different models';
  for (const [i, side] of SIDES.entries())
    if (identities[i]!.kind !== 'local' || identities[i]!.adapter !== of[side].adapter)
      return `the run of the ${side} did not use the adapter of the gate`;
  const { config } = runs[0]!.start;
  if (config.seed !== seedOf(of).toString() || config.split !== 'test')
    return 'the questions were not drawn with the seed of the gate';
  if (jsonDifferences(asJson(config.without ?? []), asJson(of.without)).length > 0)
    return 'the runs skip different questions than gate.json';
  if (
    evalOf(of.asks).some((each) => !config.eval.includes(each)) ||
    config.belief !== 'exact' ||
    config.mode.length !== 1
  )
    return 'the settings of the runs do not match the guards';
  if (readText(files(folder).evidence) !== evidenceText(trialsOf(folder, of)))
    return 'evidence.json does not match the two runs';
  return null;
}

/**
 * Fault in the choice of questions, null if there is none: no earlier gate may have asked them, and
 * none may be skipped for another reason.
 */
async function staleness(
  registry: Registry,
  { gate, without }: Manifest,
  { state }: TruthRun,
): Promise<string | null> {
  const { events } = await registry.read();
  const opened = events.findIndex(
    ({ event }) => event.kind === 'gate_opened' && event.gate === gate,
  );
  const before = areAbout(problemsUsed(registry, { events: events.slice(0, opened) }, gate));
  if ([...state.problems.values()].some(({ problem, framed }) => before(framed?.of ?? problem.id)))
    return 'it asks questions that an earlier gate asked';
  const ever = areAbout(problemsUsed(registry, { events }, gate));
  return without.every(ever) ? null : 'it skips questions that no other gate asked';
}

/**
 * Re-derives the trials: judges both runs and compares the seed, both adapters and every cost with
 * the gate.
 * @param registry where the gate is looked up
 * @throws IsoproError where the check cannot be made, as judgeTruthRun
 */
export async function judgeBeliefGuards(
  { folder, ...trust }: TruthJudgeOptions,
  registry: Registry,
): Promise<BeliefGuardsJudgement> {
  const of = readManifest(folder);
  const [challenger, incumbent] = [
    await judgeTruthRun({ folder: path.join(folder, 'challenger'), ...trust }),
    await judgeTruthRun({ folder: path.join(folder, 'incumbent'), ...trust }),
  ];
  const said = (
    verdict: BeliefGuardsJudgement['verdict'],
    failure: string | null,
  ): BeliefGuardsJudgement => ({
    format: 'isopro.truth-guards-judge.v1',
    ...{ folder, gate: of.gate, verdict, failure, challenger, incumbent },
  });
  for (const [side, { verdict, failure }] of [
    ['challenger', challenger],
    ['incumbent', incumbent],
  ] as const)
    if (verdict !== 'pass') return said(verdict, `${side}: ${failure}`);
  if (!existsSync(files(folder).evidence))
    return said('not_ended', 'there is no evidence.json yet; run the same command to continue');
  const fault = faultOf(folder, of);
  if (fault !== null) return said('hard_fail', fault);
  const known = await gateOf(registry, of.gate).catch((error: unknown) => {
    if (
      error instanceof IsoproError &&
      ['REGISTRY_REFUSED', 'LOG_NOT_FOUND', 'REGISTRY_NOT_FOUND'].includes(error.code)
    )
      return null;
    throw error;
  });
  if (known === null)
    return said(
      'not_verified',
      `no registry here has gate ${of.gate}, so its seed and adapters are unconfirmed`,
    );
  const { config } = readTruthRun(path.join(folder, 'challenger')).start;
  const stale = await staleness(registry, of, readTruthRun(path.join(folder, 'challenger')));
  if (stale !== null) return said('hard_fail', stale);
  const { without, slopes } = of; // both are held against the signed runs
  const differences = jsonDifferences(
    asJson({ ...known.of, asks: asksOf(known.gate.policy, config), without, slopes }),
    asJson(of),
  );
  return differences.length === 0
    ? said('pass', null)
    : said(
        'hard_fail',
        `gate ${of.gate} of the registry has a different ${differences.join(', ')}`,
      );
}
