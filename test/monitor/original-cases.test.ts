/**
 * The cases of env_rl.md that concern who decides (§6.19 to §6.28, and X1 to X20): the test that
 * has each here, or the reason why there is none. The table is held against the suites.
 */
import { readFileSync } from 'node:fs';
import { expect, test } from '@jest/globals';

const from = (first: number, last: number): string[] =>
  Array.from({ length: last - first + 1 }, (_, i) => String(first + i));

type Row = readonly [
  cases: readonly string[],
  where: { readonly suite: string; readonly says: string } | { readonly none: string },
];
const at = (suite: string, says: string) => ({ suite, says });
const none = (why: string) => ({ none: why });

const CONVOLUTION = none('its network is convolutional; there is no such trainee');
const PROMPT_LOOP = none('prompts are not tuned; that is not part of the decider');
const HARNESS = none('attempts, reviews and scenarios are the harness’s, with suites of its own');

const CASES: readonly Row[] = [
  [from(140, 143), CONVOLUTION],
  [from(144, 153), none('CIFAR splits; the splits of tasks are tested in test/tasks')],
  [from(154, 156), at('monitor/menu', 'every option of')],
  [from(157, 172), none('blocks and activations; edits of LoRA: test/monitor/trainer-executor')],
  [['173'], at('monitor/decision', 'R7')],
  [['174'], at('monitor/decision', 'R5')],
  [['175'], at('monitor/deciders', 'texts')],
  [['176'], at('monitor/menu', 'passes the checker')],
  [['177'], at('monitor/deciders', 'texts')],
  [['178'], at('monitor/deciders', 'shows feedback of earlier attempts')],
  [['179', '180', '182'], at('monitor/deciders', 'holds rules, playbook, situation')],
  [['181'], at('monitor/deciders', 'shows feedback of earlier attempts')],
  [from(183, 189), HARNESS],
  [from(190, 192), PROMPT_LOOP],
  [['193', '194', '195'], at('monitor/deciders', 'answers the same question without asking')],
  [['196'], none('no answer is evicted: a run keeps them all, in its log')],
  [['197', '198', '199'], at('monitor/deciders', 'the majority of the votes decides')],
  [['200'], at('monitor/deciders', 'answers the same question without asking')],
  [['201'], at('loop/deciders', 'nothing that a head covers is asked again')],
  [['202'], none('the record of a run cannot be switched off')],
  [['203', '204'], at('monitor/deciders', 'the majority of the votes decides')],
  [from(205, 213), PROMPT_LOOP],
  [['214', '215', '216'], at('monitor/decision', 'wrong direction')],
  [from(217, 229), PROMPT_LOOP],
  [from(230, 234), none('the signed log takes the place of the agent’s trace')],
  [['235'], at('loop/deciders', 'each question stands before its decision')],
  [['236'], PROMPT_LOOP],
  [from(237, 241), HARNESS],
  [from(242, 247), PROMPT_LOOP],
  [['X1', 'X2', 'X4', 'X19'], at('judge/judge', 'X1, X2, X4, X19')],
  [['X3'], at('judge/judge', 'X3: no evaluations')],
  [['X5'], at('judge/judge', 'X5: a decision without a cite')],
  [['X6'], at('judge/judge', 'X6: a decision of another iteration')],
  [['X7'], at('judge/judge', 'X7: measured values replaced')],
  [['X8'], at('judge/judge', 'X8: nothing fired, it says')],
  [['X9'], at('judge/judge', 'X9: integrity comes first')],
  [['X10'], at('judge/judge', 'X10: the run describes its file')],
  [['X11'], at('judge/judge', 'X11: weights of zero')],
  [['X12'], at('judge/obligations', 'X12: the wrong direction')],
  [['X13'], at('judge/judge', 'X13: a module that is no longer measured')],
  [['X14'], at('monitor/evaluate-rules', 'X14: one NaN')],
  [['X15'], at('judge/obligations', 'X15: logged and not executed')],
  [['X16'], at('judge/log-steps', 'X16: a run in which nothing fires')],
  [['X17'], at('monitor/deciders', 'X17')],
  [['X18'], at('monitor/deciders', 'X18')],
  [['X20'], at('judge/obligations', 'X20: deferred again and again')],
  // faults of the original's harness (§8.1), as far as they are a decider's
  [['fault 1'], at('monitor/deciders', 'fault 1')],
  [['fault 2'], at('monitor/deciders', 'fault 2')],
  [['fault 3'], at('monitor/deciders', 'fault 3')],
  [['fault 6'], at('monitor/menu', 'is executed, or fails with a typed error')],
];

test('each case has one row, and each row names a test that there is', () => {
  const named = CASES.flatMap(([cases]) => cases);
  expect(new Set(named).size).toBe(named.length);
  const all = [...from(140, 247), ...from(1, 20).map((n) => `X${n}`)];
  expect(all.filter((each) => !named.includes(each))).toEqual([]);
  const missing = CASES.flatMap(([cases, where]) =>
    'none' in where || readFileSync(`test/${where.suite}.test.ts`, 'utf8').includes(where.says)
      ? []
      : [[cases.join(', '), where]],
  );
  expect(missing).toEqual([]);
});
