/** The replies that built-in tasks know to pass: the control `references` trains on them. */
import { describe, expect, test } from '@jest/globals';
import { SHIPPED } from '../../src/tasks/games/shipped.js';
import { openTask } from '../../src/tasks/open-task.js';
import { PROMPT_STYLES } from '../../src/tasks/task.js';

describe.each(['sql', 'extract', 'ladder', 'scheduling', ...SHIPPED])('%s', (id) => {
  test.each(PROMPT_STYLES)(
    'its reference replies pass on every tier, in style %s',
    async (style) => {
      await using task = await openTask(id);
      expect(task.hasReferences).toBe(true);
      const judged: [tier: string, kind: string, findings: number][] = [];
      for (const tier of task.tiers) {
        for (let seed = 1n; seed <= 4n; seed++) {
          const problem = await task.generate(tier.id, seed);
          const text = (await task.referenceReply(problem, style))!;
          const { verdict } = await task.judge(problem, text, 'stop');
          judged.push([tier.id, verdict.kind, (await task.checkTrace(problem, text)).length]);
        }
      }
      expect(judged).toEqual(judged.map(([tier]) => [tier, 'pass', 0]));
    },
    120_000,
  );
});

test('a task without them says so', async () => {
  await using task = await openTask('scheduling-classic');
  expect(task.hasReferences).toBe(false);
  expect(await task.referenceReply(await task.generate(task.tiers[0]!.id, 1n), 'cot')).toBeNull();
});
