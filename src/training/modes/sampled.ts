/**
 * Methods that spend the loop's tokens on samples of the base model instead: one sampling, three
 * ways of using it.
 */
import { requireCapabilities } from '../../backends/backend.js';
import { dictionary } from '../../dictionary.js';
import { commonest, meanLogprob, mostLikely } from '../../evaluation/reply-selection.js';
import { deriveSeed } from '../../random.js';
import { estimate } from '../../evaluation/pass-at-k.js';
import { groupBy, type Stratum } from '../../statistics/paired.js';
import { passAtK, summarise, SUMMARY_SEED } from '../../statistics/index.js';
import type { Problem } from '../../tasks/task.js';
import {
  failuresOf,
  type Method,
  type MethodResult,
  type ModeContext,
  type ModeReply,
} from './mode.js';
import { sampleReplies, type ModeReplies } from './replies.js';

/**
 * Best-of-k, majority and pass@k from the same k samples of each problem at the rollouts'
 * temperature.
 * @param k tokens that the loop used over tokens of one greedy pass
 */
export async function sampledMethods(
  context: ModeContext,
  methods: readonly Method[],
  k: number,
): Promise<MethodResult[]> {
  const { backend, task, settings, problems, onProgress } = context;
  const begin = performance.now();
  // before the samples of all methods are paid for
  if (methods.includes('best-of-k')) requireCapabilities(backend, ['logprobs'], 'best-of-k');
  const { groups, tokens } = await sampleReplies(context, {
    prompt: (problem) => task.prompt(problem, settings.sampling.style),
    plan: problems.map((problem) => ({
      problem,
      seeds: Array.from({ length: k }, (_, sample) =>
        deriveSeed({
          runSeed: BigInt(settings.seed),
          purpose: 'best of k',
          iteration: 0,
          problemId: problem.id,
          sample,
        }),
      ),
    })),
    temperature: settings.sampling.temperature,
    topP: settings.sampling.topP,
    ...(onProgress && {
      onProgress: (progress) => onProgress(methods[0] ?? 'best-of-k', progress),
    }),
  });
  const seconds = (performance.now() - begin) / 1000;
  const chosen = async (
    choose: (group: ModeReplies['groups'][number]) => ModeReply | Promise<ModeReply>,
  ): Promise<Pick<MethodResult, 'test' | 'failures'>> => {
    const judged: [Problem, ModeReply][] = [];
    for (const group of groups) judged.push([group.problem, await choose(group)]);
    const outcomes = judged.map(([{ tier }, { verdict }]) => ({ tier, kind: verdict.kind }));
    return {
      test: summarise(outcomes, task.tiers, { seed: SUMMARY_SEED }),
      failures: failuresOf(judged),
    };
  };
  const results: MethodResult[] = [];
  for (const method of methods) {
    const common = { method, k, tokens, seconds };
    if (method === 'best-of-k')
      results.push({
        ...common,
        ...(await chosen(({ replies }) =>
          mostLikely(replies, ({ logprobs }) => meanLogprob({ logprobs: logprobs! })),
        )),
        note: 'the sample with the highest mean token log-probability; the verifier does not choose',
      });
    if (method === 'majority')
      results.push({
        ...common,
        ...(await chosen(({ problem, replies }) =>
          commonest(problem, replies, task.readAnswer.bind(task)),
        )),
        note: 'the most common answer',
      });
    if (method === 'pass@k')
      results.push({
        ...common,
        test: ceiling(context, groups, k),
        failures: failuresOf(
          groups.flatMap(({ problem, replies }) =>
            replies.map((reply) => [problem, reply] as const),
          ),
        ),
        note: 'any of the k: a ceiling, since choosing needs the verifier',
      });
  }
  return results;
}

/** Pass@k over the k samples; a problem with an undecided sample is left out. */
function ceiling(
  { task }: ModeContext,
  groups: ModeReplies['groups'],
  k: number,
): MethodResult['test'] {
  const decided = groups.filter(({ replies }) =>
    replies.every(({ verdict }) => verdict.kind !== 'none'),
  );
  const values = groupBy(
    decided,
    ({ problem }) => problem.tier,
    ({ replies }) => passAtK(k, replies.filter(({ verdict }) => verdict.kind === 'pass').length, k),
  );
  const present = task.tiers.filter(({ id }) => groups.some(({ problem }) => problem.tier === id));
  const slots = [...new Set(present.map(({ id, group }) => group ?? id))];
  const strataOf = (slot: string): Stratum[] => {
    const members = present.filter(({ id, group }) => (group ?? id) === slot);
    return members.map(({ id }) => ({ weight: 1 / members.length, values: values.get(id) ?? [] }));
  };
  const byTier = dictionary<MethodResult['test']['byTier'][string]>();
  for (const { id } of present)
    byTier[id] = estimate([{ weight: 1, values: values.get(id) ?? [] }]);
  for (const slot of slots) byTier[slot] ??= estimate(strataOf(slot));
  const all = slots.flatMap((slot) =>
    strataOf(slot).map(({ weight, values: of }) => ({ weight: weight / slots.length, values: of })),
  );
  return { ...estimate(all), byTier };
}
