/** Plan of a run: every problem under every setup, and the questions of users with opinions. */
import { generateAtMost, groupsOf, parts } from '../domains/domain.js';
import { Domains } from '../domains/user-domain.js';
import { framedBy } from '../framing.js';
import { REASONING_MODES } from '../modes/mode.js';
import type { Problem } from '../problem.js';
import { Sampler } from '../sampler.js';
import { seedFor } from '../seed.js';
import { STRATEGIES } from '../strategies/strategy.js';
import { SYSTEM_PROMPTS } from '../system-prompts.js';
import { systemPromptNamed, type TruthConfig } from './config.js';
import type { ProblemRecord, Setup } from './records.js';

/** Problems of a domain that a run asks: as many as it wants, or all that are written down. */
export function drawProblems(
  id: string,
  {
    seed,
    split,
    problems,
    without = [],
  }: Pick<TruthConfig, 'seed' | 'split' | 'problems' | 'without'>,
  domains = new Domains(),
): readonly Problem[] {
  const domain = domains.named(id);
  // of its own, so that what one domain draws moves no other
  const own = seedFor(BigInt(seed), 'truth problems', id);
  const left = new Set(without);
  if (domain.source === 'generated') return generateAtMost(domain, split, problems, own, left);
  // a statement and its negation are asked both or neither, but for the last
  const groups = groupsOf(parts(domain)[split]);
  const drawn = new Sampler(groups, own).next(groups.length).flat();
  return drawn.filter((problem) => !left.has(problem.id)).slice(0, problems);
}

/** True if users with opinions ask. */
const framesAsked = ({ eval: scored }: TruthConfig): boolean =>
  scored.some((each) => STRATEGIES.parse(each).name === 'sycophancy');

/** All problems of a run, those of a domain together, each followed by its framed ones. */
export function plannedProblems(config: TruthConfig, domains = new Domains()): ProblemRecord[] {
  return config.domain.flatMap((domain) =>
    drawProblems(domain, config, domains).flatMap((problem): ProblemRecord[] => [
      { kind: 'problem', domain, problem },
      ...(problem.kind === 'binary' && problem.userOption === undefined && framesAsked(config)
        ? config.framing.flatMap((framing) =>
            ([0, 1] as const).map(
              (option): ProblemRecord => ({
                kind: 'problem',
                domain,
                problem: framedBy(problem, option, framing),
                framed: { of: problem.id, framing },
              }),
            ),
          )
        : []),
    ]),
  );
}

export const plannedSetups = ({
  domain: domains,
  mode: modes,
  systemPrompt: prompts,
}: TruthConfig): Setup[] =>
  domains.flatMap((domain) =>
    modes.flatMap((mode) =>
      prompts.map((prompt): Setup => ({ domain, mode, systemPrompt: systemPromptNamed(prompt) })),
    ),
  );

/** Text of the system's message under a setup. */
export const systemText = ({ systemPrompt }: Setup): string | null =>
  systemPrompt === null ? null : SYSTEM_PROMPTS[systemPrompt as keyof typeof SYSTEM_PROMPTS];

/**
 * Seed of a trajectory: the same for a problem in every framing, so that only the framing differs.
 */
export const trajectorySeed = (
  { seed }: Pick<TruthConfig, 'seed'>,
  { mode, systemPrompt }: Setup,
  { problem, framed }: ProblemRecord,
): bigint => {
  const purpose = `truth trajectory ${mode} ${systemPrompt ?? ''}`;
  return seedFor(BigInt(seed), purpose, framed?.of ?? problem.id);
};

/** Questions of an interview, from the train split, which shares nothing with the test split. */
export function interviewQuestions(
  config: TruthConfig,
  { domain, mode: id }: Setup,
  domains = new Domains(),
): Readonly<Record<'iid' | 'stationary-ood', Problem[]>> {
  const mode = REASONING_MODES.parse(id);
  if (mode.name !== 'bootstrap-interview') return { iid: [], 'stationary-ood': [] };
  const wanted = { ...config, problems: mode.questions + 1 };
  const of = (source: string, from: readonly string[]): Problem[] =>
    mode.source === source
      ? from.flatMap((each) => drawProblems(each, { ...wanted, split: 'train' }, domains))
      : [];
  return { iid: of('iid', [domain]), 'stationary-ood': of('stationary-ood', mode.domains) };
}
