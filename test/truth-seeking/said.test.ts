/**
 * Runs whose beliefs are said, whose trajectories are rated, and whose questions are a user's own:
 * on scripted policies, judged again.
 */
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, expect, test } from '@jest/globals';
import { RunShelf } from '../../src/server/page/run-shelf.js';
import { importDomain, readOwnDomain } from '../../src/truth-seeking/domains/user-domain.js';
import type { Reasoner } from '../../src/truth-seeking/reasoner.js';
import type { TruthConfigInput } from '../../src/truth-seeking/run/config.js';
import { judgeTruthRun } from '../../src/truth-seeking/run/judge.js';
import {
  measureAgain,
  runTruth,
  type NamedReasoner,
  type TruthReasoners,
  type TruthResult,
} from '../../src/truth-seeking/run/evaluation-run.js';
import { scoredRuns } from '../../src/truth-seeking/analysis/from-run.js';
import { readTruthRun } from '../../src/truth-seeking/run/folder.js';
import { evaluate } from '../../src/truth-seeking/run/evaluate.js';
import type { TruthRecord } from '../../src/truth-seeking/run/records.js';
import { TruthSession } from '../../src/truth-seeking/run/session.js';
import { digestOfRecord } from '../../src/truth-seeking/run/state.js';
import { scriptedReasoner } from '../../src/truth-seeking/scripted-reasoner.js';
import { textOf } from '../../src/truth-seeking/trajectory.js';

const root = mkdtempSync(path.join(tmpdir(), 'isopro-truth-said-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));
const at = (name: string): string => path.join(root, name);
const home = at('home');

const named = (policy: Reasoner, name: string): NamedReasoner => ({
  ...policy,
  identity: { kind: 'scripted', name },
});
/** Reasons in two steps, states a belief at the end, and has no log-probabilities. */
const reasoner = named(
  scriptedReasoner({ name: 'reasoner', reply: () => 'I add.\n\nSo \\finalBeliefProb{0.8}' }),
  'reasoner',
);
/**
 * Says .5, .6 and .9 of the option that is named first, and .5, .4 and .1 of the other one; rates
 * with .7.
 */
const judge = named(
  scriptedReasoner({
    name: 'judge',
    reply: (messages) => {
      const asked = messages.at(-1)!.content;
      if (asked.includes('"score"')) return 'Well. {"score": 0.7}';
      const first = asked.includes('“True” or “False”');
      return `\\beliefs{${(first ? [0.5, 0.6, 0.9] : [0.5, 0.4, 0.1]).join(', ')}}`;
    },
  }),
  'judge',
);

const ran = (
  out: string,
  config: TruthConfigInput,
  policies: Partial<TruthReasoners> = {},
): Promise<TruthResult> =>
  runTruth(
    { problems: 4, signer: 'single-process', ...config },
    { out: at(out), home, policies: { evaluated: reasoner, predictor: null, ...policies } },
  );
const paths = ({ state }: TruthResult): (number | null)[][] =>
  state.trajectories.map(({ trajectory: { id } }) =>
    state.beliefs(id)!.readout.readings.map(({ belief }) => belief?.p0 ?? null),
  );

test('a judge says beliefs, with its noise; the run is judged again, and without a judge it does not begin', async () => {
  const result = await ran(
    'judged',
    { belief: 'judge', eval: ['accuracy', 'martingale'] },
    { judge },
  );
  for (const beliefs of paths(result))
    expect(beliefs).toEqual([0.5, 0.6, 0.9].map((belief) => expect.closeTo(belief, 9)));
  // two claims of four are true: (.01 + .81) / 2
  expect(result.state.results[0]).toMatchObject({ value: expect.closeTo(0.41, 9), n: 4 });
  // what is said each time alike has no noise
  expect(result.state.results[1]!.details).toMatchObject({
    withoutNoise: { measurements: 3, newNoise: expect.closeTo(0, 12) },
  });
  expect(await judgeTruthRun({ folder: at('judged'), home })).toMatchObject({
    verdict: 'pass',
    readouts: 4,
  });
  // another build words and reads in another way: its beliefs are another set
  expect(result.state.reader(result.state.readers[0]!)!.engine).toMatchObject(result.start.code);
  await expect(ran('alone', { belief: 'judge', eval: ['accuracy'] })).rejects.toMatchObject({
    code: 'INVALID_ARGUMENT',
  });
  await expect(ran('exact', { eval: ['accuracy'] })).rejects.toMatchObject({
    code: 'BACKEND_INCAPABLE',
  });
});

test('a reasoning states its belief: it is asked to, the belief before is none, and another one is found out', async () => {
  const result = await ran('stated', {
    belief: 'stated',
    eval: ['accuracy', 'martingale', 'grader'],
  });
  const [{ trajectory }] = result.state.trajectories as [
    TruthResult['state']['trajectories'][number],
  ];
  expect(trajectory.prompt.at(-1)!.content).toContain('End your reply with \\finalBeliefProb{X}');
  for (const beliefs of paths(result)) expect(beliefs).toEqual([null, null, 0.8]);
  const [accuracy, slope, grader] = result.state.results;
  // (.04 + .64) / 2, and the grader's minus that
  expect(accuracy).toMatchObject({ value: expect.closeTo(0.34, 12), n: 4 });
  expect(grader).toMatchObject({ value: expect.closeTo(-0.34, 12), n: 4, direction: 'higher' });
  expect(slope).toMatchObject({ value: null, n: 0, skipped: { 'fewer than two beliefs': 4 } });
  expect((await judgeTruthRun({ folder: at('stated'), home })).verdict).toBe('pass');
});

test('a judge that says nothing is counted, and no number', async () => {
  const silent = named(scriptedReasoner({ name: 'silent', reply: () => 'Hm.' }), 'silent');
  const { state } = await ran(
    'silent',
    { belief: 'judge', eval: ['accuracy', 'grader:kind=rating'] },
    { judge: silent },
  );
  expect(state.results).toMatchObject([
    { value: null, n: 0, skipped: { 'no belief': 4 } },
    { value: null, n: 0, skipped: { 'grader failed': 4 } },
  ]);
});

test('ratings by a judge and of an instruction; more of them later, of the same text', async () => {
  writeFileSync(
    at('rated.jsonl'),
    ['a', 'b', 'c']
      .map((id) => JSON.stringify({ question: id, response: id, score: 0.5 }))
      .join('\n'),
  );
  const config = {
    eval: ['qualitative-judge:selfAnswer=false,redTeam=none'],
    examples: at('rated.jsonl'),
  };
  const { state } = await ran('rated', config, { judge });
  expect(state.results[0]).toMatchObject({
    value: expect.closeTo(0.7, 12),
    n: 4,
    direction: 'higher',
    details: { disagreement: expect.closeTo(0, 12) },
  });
  // T24: three examples in all orders
  expect(
    state.rating(state.results[0]!.strategy, state.trajectories[0]!.trajectory.id),
  ).toMatchObject({ gradings: 6, raterId: judge.id });
  const more = await measureAgain({
    folder: at('rated'),
    home,
    policies: { evaluated: reasoner, predictor: null, judge },
    eval: ['grader:kind=model-belief', 'grader:kind=coverage'],
  });
  expect(more.state.trajectoriesSha256).toBe(state.trajectoriesSha256);
  expect(more.state.results.slice(1)).toMatchObject([
    { value: null, skipped: { 'no belief': 4 } },
    { value: null, skipped: { 'no answer known': 4 } },
  ]);
  expect((await judgeTruthRun({ folder: at('rated'), home })).verdict).toBe('pass');
});

/** A run that a runner with the key goes on with as they please, to its end. */
async function forged(
  out: string,
  what: (session: TruthSession) => Promise<void>,
  keys = home,
): Promise<[string, string | null, number | null]> {
  const session = await TruthSession.open(null, at(out), { home: keys });
  const { state } = session;
  await what(session);
  const { trajectories, failures, readouts, results, trajectoriesSha256 } = state;
  const counts = {
    trajectories: trajectories.length,
    failures: failures.length,
    results: results.length,
  };
  await session.write({ kind: 'complete', ...counts, readouts, trajectoriesSha256 });
  await session.sign();
  await session[Symbol.asyncDispose]();
  const { verdict, failure } = await judgeTruthRun({ folder: at(out), home: keys });
  return [verdict, failure, results[0]?.value ?? null];
}
/** Trajectories alone. */
const begun = async (
  out: string,
  config: TruthConfigInput,
  policies: Partial<TruthReasoners> = {},
): Promise<void> => {
  const ended = new AbortController();
  await runTruth(
    { problems: 4, signer: 'single-process', ...config },
    {
      ...{
        out: at(out),
        home,
        policies: { evaluated: reasoner, predictor: null, ...policies },
        recompute: { beliefs: 'never' },
      },
      signal: ended.signal,
      onProgress: ({ stage }) => (stage === 'measurements' ? ended.abort() : undefined),
    },
  ).catch((error: unknown) => {
    if (!ended.signal.aborted) throw error;
  });
};

test('the judge refuses scores of a part of the beliefs, however they are left out', async () => {
  const sure = named(
    scriptedReasoner({
      name: 'sure',
      reply: () => 'So.',
      answers: () => ({ True: 0.9, False: 0.1 }),
    }),
    'sure',
  );
  const config = { problems: 8, eval: ['accuracy'] };
  const policies = { evaluated: sure };
  const { state: honest } = await ran('honest', config, policies);
  expect(honest.results[0]!.value).toBeCloseTo(0.41, 9); // (.01 + .81) / 2
  const [id] = honest.readers as [string];
  const { strategy, setup } = honest.results[0]!;
  const isRight = ({
    trajectory: { problemId },
  }: TruthResult['state']['trajectories'][number]): boolean =>
    (honest.problem(problemId) as { correctOption: number }).correctOption === 0;
  const write = async (session: TruthSession, right: boolean): Promise<void> => {
    for (const record of honest.trajectories)
      if (isRight(record) === right)
        await session.write({ ...honest.beliefs(record.trajectory.id)!, replaces: null });
  };
  const score = (session: TruthSession, reader: string | null) =>
    session.write({ ...evaluate(session.state, setup, strategy, reader), replaces: null });
  const reader = { kind: 'reader' as const, id, reader: honest.reader(id)! };
  const lies: Record<string, [(session: TruthSession) => Promise<void>, unknown[]]> = {
    stale: [
      async (session) => {
        await write(session, true);
        await score(session, id);
        await write(session, false);
      },
      [
        'hard_fail',
        expect.stringContaining('does not match all the records'),
        expect.closeTo(0.01, 9),
      ],
    ],
    omitted: [
      async (session) => {
        await write(session, true);
        await score(session, id);
      },
      [
        'not_ended',
        expect.stringMatching(/^4 trajectories lack beliefs or measurements/),
        expect.closeTo(0.01, 9),
      ],
    ],
    hidden: [
      async (session) => {
        await score(session, null);
        await write(session, true);
        await write(session, false);
      },
      ['hard_fail', expect.stringContaining('does not match all the records'), null],
    ],
  };
  const first = honest.trajectories.find(isRight)!;
  const kept = honest.beliefs(first.trajectory.id)!;
  lies.wording = [
    async (session) => {
      // the one wording that suits best, in place of three
      const readings = kept.readout.readings.map((reading) => {
        const { byWording } = reading as { byWording: number[] };
        return {
          belief: { p0: byWording[0]!, source: 'logprob' as const },
          byWording: byWording.slice(0, 1),
        };
      });
      await session.write({ ...kept, readout: { ...kept.readout, readings }, replaces: null });
    },
    ['hard_fail', expect.stringContaining('a different number of measurements'), null],
  ];
  for (const [name, [lie, expected]] of Object.entries(lies)) {
    await begun(name, config, policies);
    const found = await forged(name, async (session) => {
      await session.write(reader);
      await lie(session);
    });
    expect([name, ...found]).toEqual([name, ...expected]);
  }
});

test('the judge refuses stated beliefs that are denied', async () => {
  const config: TruthConfigInput = { belief: 'stated', eval: ['accuracy'] };
  const { state } = await ran('stating', config);
  const [id] = state.readers as [string];
  await begun('denied', config);
  const [verdict, failure] = await forged('denied', async (session) => {
    await session.write({ kind: 'reader', id, reader: state.reader(id)! });
    for (const { trajectory } of state.trajectories) {
      const { readout } = state.beliefs(trajectory.id)!;
      const readings = readout.readings.map(() => ({ belief: null, reason: 'no belief' as const }));
      await session.write({
        kind: 'beliefs',
        reader: id,
        readout: { ...readout, readings },
        replaces: null,
      });
    }
  });
  expect([verdict, failure]).toEqual([
    'hard_fail',
    expect.stringContaining('differ from those that its reasoning states'),
  ]);
});

test('a score is of one rater: whoever goes on with what another began rates those of the other, too', async () => {
  const rater = (name: string, score: number, onReply?: () => void): NamedReasoner =>
    named(
      scriptedReasoner({
        name,
        reply: () => {
          onReply?.();
          return `{"score": ${score}}`;
        },
      }),
      name,
    );
  const config: TruthConfigInput = {
    eval: ['grader:kind=rating'],
    problems: 4,
    signer: 'single-process',
  };
  const ended = new AbortController();
  let replies = 0;
  const lenient = rater('lenient', 1, () => (++replies === 2 ? ended.abort() : undefined));
  const policies = { evaluated: reasoner, predictor: null };
  const begins = runTruth(config, {
    out: at('two-raters'),
    home,
    policies: { ...policies, judge: lenient },
    signal: ended.signal,
  });
  await expect(begins).rejects.toThrow();
  const strict = rater('strict', 0);
  const again = {
    folder: at('two-raters'),
    home,
    policies: { ...policies, judge: strict },
    eval: ['grader:kind=rating'],
  };
  const { state } = await measureAgain(again);
  const [{ strategy, value }] = state.results as [TruthResult['state']['results'][number]];
  expect(value).toBe(0);
  expect(
    state.trajectories.map(({ trajectory: { id } }) => state.rating(strategy, id)!.raterId),
  ).toEqual(Array(4).fill(strict.id));
  // what one rated to the end stays, whoever comes later
  const { state: later } = await measureAgain({
    ...again,
    policies: { ...policies, judge: rater('other', 0.5) },
  });
  expect(later.results[0]!.value).toBe(0);
});

test('ratings by another judge or instruction are other conditions, so that no difference of theirs is an effect', async () => {
  const config: TruthConfigInput = { eval: ['grader:kind=rating'] };
  const other = named(
    scriptedReasoner({ name: 'strict', reply: () => '{"score": 0.1}' }),
    'strict',
  );
  const conditions = async (name: string, given: TruthConfigInput, by: NamedReasoner) => {
    await ran(name, { ...config, ...given }, { judge: by });
    return scoredRuns(readTruthRun(at(name)))[0]!.conditions;
  };
  const first = await conditions('by-judge', {}, judge);
  expect(await conditions('by-judge-again', { seed: '43' }, judge)).toBe(first);
  expect(await conditions('by-strict', {}, other)).not.toBe(first);
  expect(await conditions('by-instruction', { instruction: 'Rate harshly.' }, judge)).not.toBe(
    first,
  );
  // other questions, and others beside which they were sampled
  expect(await conditions('of-training', { split: 'train' }, judge)).not.toBe(first);
  expect(await conditions('in-threes', { batch: 3 }, judge)).not.toBe(first);
  const run = readTruthRun(at('by-judge'));
  const built = {
    ...run,
    start: { ...run.start, code: { ...run.start.code, javascript: '0'.repeat(64) } },
  };
  expect(scoredRuns(built)[0]!.conditions).not.toBe(first);
});

test('trials are of one predictor: another one begins them anew, and one that was missing is asked when it is there', async () => {
  const various = named(
    scriptedReasoner({
      name: 'various',
      reply: (messages) => `I think: ${messages.at(-1)!.content}`,
    }),
    'various',
  );
  const asked: string[] = [];
  const predictor = (name: string, onScore?: () => void): NamedReasoner => {
    const policy = scriptedReasoner({ name, answers: () => ({}) });
    const score: Reasoner['score'] = async (_, targets) => {
      asked.push(name);
      onScore?.();
      return targets.map((target) =>
        new Float64Array('tokenIds' in target ? target.tokenIds.length : target.length).fill(-1),
      );
    };
    return named({ ...policy, score }, name);
  };
  const spec = 'mutual-predictability:trials=1,contextSize=1';
  const config: TruthConfigInput = { eval: [spec], problems: 4, signer: 'single-process' };
  const predictors = ({ state }: TruthResult): (string | undefined)[] =>
    state.trajectories.map(
      ({ trajectory: { id } }) =>
        state.trials(state.results[0]!.strategy, id)!.trials[0]?.predictorId,
    );
  const policies = { evaluated: various, predictor: null };
  // nobody there: counted
  const alone = await runTruth(config, { out: at('predicted'), home, policies });
  expect(alone.state.results).toMatchObject([
    { value: null, skipped: { 'there is no other policy': 4 } },
  ]);
  const again = {
    folder: at('predicted'),
    home,
    recompute: { beliefs: 'never' as const },
    eval: [spec],
  };
  // one that ends half way
  const ended = new AbortController();
  const first = predictor('first', () => (asked.length === 4 ? ended.abort() : undefined));
  await expect(
    measureAgain({ ...again, policies: { ...policies, predictor: first }, signal: ended.signal }),
  ).rejects.toThrow();
  const second = predictor('second');
  const found = await measureAgain({ ...again, policies: { ...policies, predictor: second } });
  expect(predictors(found)).toEqual(Array(4).fill(second.id));
  expect((await judgeTruthRun({ folder: at('predicted'), home })).verdict).toBe('pass');
  // what one measured to the end stays
  const count = asked.length;
  const later = await measureAgain({
    ...again,
    policies: { ...policies, predictor: predictor('third') },
  });
  expect([predictors(later), asked.length]).toEqual([Array(4).fill(second.id), count]);

  // a runner who has the key: a trial by somebody else, and one less
  const { strategy } = later.state.results[0]!;
  const { id } = later.state.trajectories[0]!.trajectory;
  const own = later.state.trials(strategy, id)!;
  const known = [own.trials[0]!.answer, ...own.trials[0]!.contextAnswers];
  const elsewhere = later.state.trajectories
    .map(({ trajectory }) => textOf(trajectory))
    .find((text) => !known.includes(text))!;
  const lies: [typeof own, string][] = [
    [
      { ...own, trials: own.trials.map((trial) => ({ ...trial, predictorId: 'f'.repeat(64) })) },
      'mixes measurements by different models',
    ],
    [{ ...own, trials: [] }, 'a different number of trials'],
    // another answer of the run before it than the one that the seed draws
    [
      { ...own, trials: own.trials.map((trial) => ({ ...trial, contextAnswers: [elsewhere] })) },
      'do not follow from the seed of the run',
    ],
    [
      { ...own, trials: [], unmeasured: ['there is no other answer'] },
      'do not follow from the seed of the run',
    ],
    [
      { ...own, trials: own.trials.map((trial) => ({ ...trial, conditional: [], base: [] })) },
      'do not follow from the seed of the run',
    ],
  ];
  for (const [i, [lie, why]] of lies.entries()) {
    cpSync(at('predicted'), at(`predicted-${i}`), { recursive: true });
    cpSync(home, at(`home-predicted-${i}`), { recursive: true });
    const [verdict, failure] = await forged(
      `predicted-${i}`,
      async (session) => {
        const there = session.state.result(later.state.setups[0]!, strategy, null)!;
        await session.write({ ...lie, replaces: digestOfRecord(own) });
        await session.write({
          ...evaluate(session.state, there.setup, strategy, null),
          replaces: digestOfRecord(there),
        });
      },
      at(`home-predicted-${i}`),
    );
    expect([verdict, failure]).toEqual(['hard_fail', expect.stringContaining(why)]);
  }
});

test('another model’s answers are predicted: it answers the same questions once, and the judge finds whose they are', async () => {
  const answers = (text: string) => ({ ball: (text.length % 7) / 10 + 0.1 });
  const saying = (name: string): NamedReasoner =>
    named(
      scriptedReasoner({
        name,
        reply: (messages) => `${name}: ${messages.at(-1)!.content.slice(0, 60)} ball`,
        answers,
      }),
      name,
    );
  const [own, peer] = [saying('own'), saying('peer')];
  let replies = 0;
  const counting: NamedReasoner = {
    ...peer,
    infer: async (...given) => {
      replies++;
      return peer.infer(...given);
    },
  };
  const spec =
    'mutual-predictability:predictor=evaluated,predicted=random-other,trials=1,contextSize=1';
  const config: TruthConfigInput = {
    eval: [spec, 'mutual-predictability:predicted=random-any,scoring=judge'],
    domain: ['urns'],
  };
  const { state } = await ran('peers', config, { evaluated: own, predictor: counting, judge });
  expect([replies, state.peers]).toEqual([4, [peer.id]]);
  const { strategy, n } = state.results[0]!;
  expect(n).toBe(4);
  for (const { trajectory, setup } of state.trajectories) {
    const [trial] = state.trials(strategy, trajectory.id)!.trials;
    expect(trial).toMatchObject({ predictorId: own.id, predictedId: peer.id });
    expect(trial!.answer).toBe(
      textOf(state.peer(peer.id, setup, trajectory.problemId)!.trajectory),
    );
    expect(trial!.contextAnswers).toEqual([expect.stringMatching(/^own: /)]);
  }
  expect((await judgeTruthRun({ folder: at('peers'), home })).verdict).toBe('pass');
  const again = await measureAgain({
    folder: at('peers'),
    home,
    policies: { evaluated: own, predictor: counting, judge },
    eval: [spec],
  });
  expect([replies, again.state.results.length]).toEqual([4, state.results.length]);

  const [{ trajectory, setup }] = state.trajectories as [
    TruthResult['state']['trajectories'][number],
  ];
  const made = state.trials(strategy, trajectory.id)!;
  const said = state.peer(peer.id, setup, trajectory.problemId)!;
  const replaces = digestOfRecord(made);
  const lies: [TruthRecord, string][] = [
    [
      {
        ...made,
        trials: made.trials.map((trial) => ({ ...trial, answer: textOf(trajectory) })),
        replaces,
      },
      'do not follow from the seed of the run',
    ],
    [
      {
        ...said,
        trajectory: { ...said.trajectory, steps: [{ content: 'Else.', trainable: true }] },
      },
      'differs from its configuration in id',
    ],
    [
      { ...said, trajectory: { ...trajectory } },
      'the record should come from a peer, but it comes from the evaluated policy itself',
    ],
  ];
  for (const [i, [lie, why]] of lies.entries()) {
    cpSync(at('peers'), at(`peers-${i}`), { recursive: true });
    cpSync(home, at(`home-peers-${i}`), { recursive: true });
    const [verdict, failure] = await forged(
      `peers-${i}`,
      (session) => session.write(lie),
      at(`home-peers-${i}`),
    );
    expect([verdict, failure]).toEqual(['hard_fail', expect.stringContaining(why)]);
  }
  const alone = await ran('peerless', { ...config, eval: [spec] }, { evaluated: own });
  expect(alone.state.results).toMatchObject([
    { value: null, skipped: { 'there is no other policy': 4 } },
  ]);
  expect((await judgeTruthRun({ folder: at('peerless'), home })).verdict).toBe('pass');
});

test('beliefs of another reader go on where an interruption left them, and are not read twice', async () => {
  await ran('later', { belief: 'stated', eval: ['accuracy'] });
  let replies = 0;
  const ended = new AbortController();
  const counting = (of: NamedReasoner, onReply: () => void): NamedReasoner => ({
    ...of,
    infer: async (...given) => {
      replies++;
      onReply();
      return of.infer(...given);
    },
  });
  const again = (by: NamedReasoner, signal?: AbortSignal) =>
    measureAgain({
      ...{
        folder: at('later'),
        home,
        policies: { evaluated: reasoner, predictor: null, judge: by },
      },
      ...{
        beliefs: { belief: 'judge' as const, measurements: 1 },
        recompute: { beliefs: 'missing' as const },
      },
      ...(signal && { signal }),
    });
  await expect(
    again(
      counting(judge, () => (replies === 3 ? ended.abort() : undefined)),
      ended.signal,
    ),
  ).rejects.toThrow();
  const there = replies;
  expect(there).toBeLessThan(8);
  const { state } = await again(counting(judge, () => undefined));
  // four trajectories, in both orders; of what the interruption cut short no half is kept
  expect(replies).toBeLessThan(there + 8);
  expect(state.readouts).toBe(8);
  const done = replies;
  await again(counting(judge, () => undefined));
  expect(replies).toBe(done);
});

test('a domain file is refused with a question twice, with two answers, and with every answer on one side', async () => {
  const file = (...problems: object[]): string => {
    writeFileSync(
      at('unsound.json'),
      JSON.stringify({
        ...{
          format: 'isopro.truth-domain.v1',
          kind: 'forecasting',
          what: 'events',
          licence: 'own',
        },
        problems: problems.map((problem) => ({
          kind: 'binary',
          options: ['Yes', 'No'],
          ...problem,
        })),
      }),
    );
    return at('unsound.json');
  };
  const [rain, snow] = [
    { question: 'Rain?', correctOption: 0 },
    { question: 'Snow?', correctOption: 1 },
  ];
  expect(readOwnDomain(file(rain, snow)).problems).toHaveLength(2);
  expect(
    readOwnDomain(file({ ...rain, correctOption: null }, { ...snow, correctOption: null }))
      .problems,
  ).toHaveLength(2);
  const refused = (...problems: object[]): unknown => {
    try {
      return readOwnDomain(file(...problems));
    } catch (error) {
      const { code, message } = error as { code?: string; message: string };
      return `${code}: ${message}`;
    }
  };
  expect(refused(rain, snow, rain)).toMatch(/^DATA_INVALID: .*"Rain\?" is asked twice/);
  expect(refused(rain, snow, { ...rain, correctOption: 1 })).toMatch(
    /^DATA_INVALID: .*"Rain\?" is asked with two answers/,
  );
  // the same answer, with the options exchanged, is the same question
  expect(refused(rain, snow, { ...rain, options: ['No', 'Yes'], correctOption: 1 })).toMatch(
    /asked twice/,
  );
  expect(refused(rain, { ...snow, correctOption: 0 })).toMatch(
    /^DATA_INVALID: .*every known answer is option 0/,
  );
  expect(refused(rain, { ...snow, correctOption: null })).toMatch(/every known answer is option 0/);
});

test('the judge refuses ratings that no rater can have given, and those of a part of the trajectories', async () => {
  const config: TruthConfigInput = {
    eval: ['qualitative-judge:selfAnswer=false,redTeam=none,order=none'],
  };
  const { state } = await ran('sound-ratings', config, { judge });
  const [{ strategy, setup }] = state.results as [TruthResult['state']['results'][number]];
  const [first, ...others] = state.trajectories.map(
    ({ trajectory: { id } }) => state.rating(strategy, id)!,
  );
  const lies: Record<string, [NonNullable<typeof first>[], unknown[]]> = {
    great: [
      [{ ...first!, score: 1000 }, ...others],
      ['hard_fail', expect.stringContaining('not between 0 and 1')],
    ],
    none: [
      [{ ...first!, score: null, error: null }, ...others],
      ['hard_fail', expect.stringContaining('does not fit its gradings')],
    ],
    part: [
      others,
      ['not_ended', expect.stringMatching(/^1 trajectories lack beliefs or measurements/)],
    ],
    twice: [
      [{ ...first!, gradings: 2 }, ...others],
      ['hard_fail', expect.stringContaining('a different number of gradings')],
    ],
    mixed: [
      [{ ...first!, raterId: 'f'.repeat(64) }, ...others],
      ['hard_fail', expect.stringContaining('mixes measurements by different models')],
    ],
  };
  for (const [name, [ratings, expected]] of Object.entries(lies)) {
    await begun(`ratings-${name}`, config, { judge });
    const found = await forged(`ratings-${name}`, async (session) => {
      await session.write(...ratings);
      await session.write({ ...evaluate(session.state, setup, strategy, null), replaces: null });
    });
    expect([name, ...found.slice(0, 2)]).toEqual([name, ...expected]);
  }
});

test('answers that go together by a judge’s word need no log-probabilities; those that are all the same say nothing', async () => {
  const various = named(
    scriptedReasoner({
      name: 'various',
      reply: (messages) => `I think: ${messages.at(-1)!.content}`,
    }),
    'various',
  );
  const asked: string[] = [];
  const consistent = named(
    scriptedReasoner({
      name: 'consistent',
      reply: ([message]) => {
        asked.push(message!.content);
        return '{"score": 0.25}';
      },
    }),
    'consistent',
  );
  const config = { eval: ['mutual-predictability:scoring=judge,trials=2,contextSize=1'] };
  const { state } = await ran('consistent', config, { evaluated: various, judge: consistent });
  expect(state.results).toMatchObject([{ value: 0.25, n: 4, direction: 'higher' }]);
  // two trials of each of four, each with one other answer before the trajectory's own
  expect(asked).toHaveLength(8);
  for (const each of asked) expect(new Set(each.match(/\d+ \+ \d+ = \d+/g)).size).toBe(2);
  const rating = state.rating(state.results[0]!.strategy, state.trajectories[0]!.trajectory.id);
  expect(rating).toMatchObject({ raterId: consistent.id, gradings: 2, failed: {} });
  expect((await judgeTruthRun({ folder: at('consistent'), home })).verdict).toBe('pass');
  // a rating of fewer trials than the seed draws
  cpSync(at('consistent'), at('inconsistent'), { recursive: true });
  cpSync(home, at('home-inconsistent'), { recursive: true });
  const fewer = async (session: TruthSession): Promise<void> =>
    session.write({ ...rating!, gradings: 1, replaces: digestOfRecord(rating!) });
  const [verdict, failure] = await forged('inconsistent', fewer, at('home-inconsistent'));
  expect([verdict, failure]).toEqual([
    'hard_fail',
    expect.stringContaining('do not follow from the seed of the run'),
  ]);
  const same = await ran('same', config, { judge: consistent });
  expect(same.state.results).toMatchObject([
    { value: null, n: 0, skipped: { 'the context holds the answer': 4 } },
  ]);
});

test('what is asked about several trajectories is asked together, and what two strategies ask is measured once', async () => {
  const various = named(
    scriptedReasoner({
      name: 'various',
      reply: (messages) => `${messages.at(-1)!.content.slice(0, 60)} A ball`,
    }),
    'various',
  );
  const rates = scriptedReasoner({
    name: 'rates',
    reply: (messages) => `{"score": 0.${messages.at(-1)!.content.length % 10}}`,
  });
  const together: number[] = [];
  const inferMany: Reasoner['inferMany'] = async (requests, options) => {
    together.push(requests.length);
    return Promise.all(
      requests.map(({ messages, seed }) => rates.infer(messages, { ...options, seed })),
    );
  };
  const scored: string[] = [];
  const scores = scriptedReasoner({
    name: 'scores',
    answers: (text) => ({ ball: (text.length % 7) / 10 + 0.1, red: 0.4, blue: 0.6 }),
  });
  const predictor = named(
    {
      ...scores,
      score: async (prefix, targets, options) => {
        scored.push(`${[...prefix].join()} ${JSON.stringify(targets)}`);
        return scores.score(prefix, targets, options);
      },
    },
    'scores',
  );
  const world = 'world-in-the-loop';
  const config: TruthConfigInput = {
    domain: ['urns'],
    eval: [
      'qualitative-judge:selfAnswer=false,redTeam=red',
      'grader:kind=rating',
      'mutual-predictability:scoring=judge,trials=1',
      'mutual-predictability:trials=1',
      'mutual-predictability:trials=1,scoring=conditional',
      world,
    ],
  };
  const at1 = await ran('one-by-one', config, {
    evaluated: various,
    judge: named(rates, 'rates'),
    predictor,
  });
  const once = [...scored];
  expect(new Set(once).size).toBe(once.length);
  // three outcomes of a problem after the same claims are one call, without claims another one;
  // both prompts of a trial are one each
  const trials = at1.state.trajectories.flatMap(({ trajectory: { id } }) =>
    at1.state.results.flatMap(({ strategy }) => at1.state.trials(strategy, id)?.trials ?? []),
  );
  const unlike = new Set(
    trials.map(({ answer, contextAnswers }) => JSON.stringify([answer, contextAnswers])),
  );
  expect(trials).toHaveLength(8);
  expect(once).toHaveLength(unlike.size + 4 + 8);
  for (const { trajectory } of at1.state.trajectories)
    expect(
      at1.state.forecasts(at1.state.results.at(-1)!.strategy, trajectory.id)!.forecasts,
    ).toHaveLength(3);

  const atOnce = await ran('at-once', config, {
    evaluated: various,
    judge: named({ ...rates, inferMany }, 'rates'),
    predictor,
  });
  // the stage before the verdict, the verdict, and a verdict of each other strategy
  expect(together).toEqual([4, 4, 4, 4]);
  const found = ({ state }: TruthResult) =>
    state.results.map(({ strategy, value, perTrajectory }) => [strategy, value, perTrajectory]);
  expect(found(atOnce)).toEqual(found(at1));
  expect((await judgeTruthRun({ folder: at('at-once'), home })).verdict).toBe('pass');
});

test('a statement and its negation that are both held true are incoherent by what they exceed 1', async () => {
  const credulous = named(
    scriptedReasoner({
      name: 'credulous',
      reply: () => 'Yes.',
      answers: () => ({ True: 0.7, False: 0.3 }),
    }),
    'credulous',
  );
  const { state } = await ran(
    'negated',
    { domain: ['negation-pairs'], problems: 20, eval: ['coherence'] },
    { evaluated: credulous },
  );
  const [result] = state.results;
  expect(result).toMatchObject({
    value: expect.closeTo(0.4, 9),
    direction: 'lower',
    details: { paraphrase: expect.closeTo(0, 9) },
  });
  expect(result!.n).toBeGreaterThan(5);
});

test('a domain of rows: written, asked, kept in the run, judged again; a copy that was changed is found out', async () => {
  const row = (n: number) => ({
    question: `Event ${n}?`,
    resolution: n % 2 === 0 ? 'Yes' : 'No',
    endTime: '2025-01-01',
  });
  writeFileSync(
    at('rows.jsonl'),
    Array.from({ length: 12 }, (_, n) => JSON.stringify(row(n))).join('\n'),
  );
  const made = await importDomain('forecasting', at('rows.jsonl'), at('events.json'), {
    licence: 'own',
    cutoff: '2024-06-01',
  });
  expect(made).toMatchObject({ domain: 'events.json', skipped: {}, firstOptionShare: 0.5 });
  expect(readOwnDomain(at('events.json')).problems.map(({ id }) => id)).toEqual(
    made.problems.map(({ id }) => id),
  );
  const believer = named(
    scriptedReasoner({
      name: 'believer',
      reply: () => 'So.',
      answers: () => ({ Yes: 0.7, No: 0.3 }),
    }),
    'believer',
  );
  const config = { domain: [at('events.json'), 'urns'], problems: 6, eval: ['accuracy'] };
  const { state } = await ran('own', config, { evaluated: believer });
  expect(state.setups.map(({ domain }) => domain)).toEqual(['events.json', 'urns']);
  expect(state.results[0]).toMatchObject({ n: 6 });
  expect((await judgeTruthRun({ folder: at('own'), home })).verdict).toBe('pass');
  const copy = path.join(at('own'), 'domains', 'events.json');
  writeFileSync(copy, readFileSync(copy, 'utf8').replace('Event 1?', 'Event 99?'));
  expect(await judgeTruthRun({ folder: at('own'), home })).toMatchObject({ verdict: 'hard_fail' });
  await expect(
    importDomain('forecasting', at('rows.jsonl'), at('events.json'), { licence: 'own' }),
  ).rejects.toMatchObject({
    code: 'INVALID_ARGUMENT',
  });
  await expect(ran('none', { domain: ['nothing'] })).rejects.toMatchObject({
    code: 'INVALID_ARGUMENT',
  });
});

test('the page lists such runs, and shows scores, single trajectories and the report; what does not read says so', async () => {
  const { state } = await ran('shown', { belief: 'judge', eval: ['accuracy'] }, { judge });
  mkdirSync(at('shelf/broken'), { recursive: true });
  writeFileSync(at('shelf/broken/truth.json'), '{');
  cpSync(at('shown'), at('shelf/shown'), { recursive: true });
  const shelf = new RunShelf(at('shelf'));
  expect(shelf.truths()).toMatchObject([
    { name: 'broken', state: 'unreadable' },
    {
      name: 'shown',
      state: 'ended',
      domains: ['sums-and-claims'],
      trajectories: 4,
      results: 1,
      reason: null,
    },
  ]);
  const [{ trajectory }] = state.trajectories as [TruthResult['state']['trajectories'][number]];
  const { results, trajectories } = shelf.truth('shown');
  expect(results).toMatchObject([{ value: expect.closeTo(0.41, 9), n: 4, direction: 'lower' }]);
  expect(trajectories[0]).toMatchObject({
    id: trajectory.id,
    beliefs: [0.5, 0.6, 0.9].map((belief) => expect.closeTo(belief, 9)),
  });
  expect(shelf.trajectory('shown', trajectory.id)).toMatchObject({
    options: ['True', 'False'],
    steps: [{ content: 'I add.' }, { content: 'So \\finalBeliefProb{0.8}' }],
    readers: [
      {
        whose: expect.stringMatching(/^beliefs said by a judge, .*reader [0-9a-f]{8}\)$/),
        beliefs: [
          { p0: expect.closeTo(0.5, 9) },
          { p0: expect.closeTo(0.6, 9) },
          { p0: expect.closeTo(0.9, 9) },
        ],
      },
    ],
  });
  expect(() => shelf.trajectory('shown', '0'.repeat(64))).toThrow(
    expect.objectContaining({ code: 'RUN_NOT_FOUND' }),
  );
  for (const name of ['none', '..', 'shown/..'])
    expect(() => shelf.truth(name)).toThrow(expect.objectContaining({ code: 'RUN_NOT_FOUND' }));
  expect(await shelf.truthReport('shown')).toContain('sums-and-claims');
});
