/**
 * A run whose verdicts a model gives: its score is what is trained on, a judge with the same model
 * derives it again, and no other does.
 */
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { hashFile } from '../../src/engine/adapter.js';
import { resolveModel } from '../../src/engine/model-files.js';
import { judgeRun, type JudgeReport } from '../../src/judge/judge.js';
import { LogReader } from '../../src/log/read.js';
import { readManifest } from '../../src/run-folder/manifest.js';
import { runPaths } from '../../src/run-folder/paths.js';
import { RUN_STREAMS } from '../../src/run-folder/streams.js';
import { run } from '../../src/training/loop.js';
import { shortestRun, writeLetterModel } from '../models/letters.js';

const folder = mkdtempSync(path.join(tmpdir(), 'isopro-scored-'));
const file = (name: string): string => path.join(folder, name);
const model = file('letters.gguf');

beforeAll(() => {
  process.env.ISOPRO_HOME = file('home');
  writeLetterModel(model);
});
afterAll(() => {
  delete process.env.ISOPRO_HOME;
  rmSync(folder, { recursive: true, force: true });
});

const WORDS = ['one', 'two', 'three', 'four', 'five', 'six', 'seven'];
const step = ({ steps }: JudgeReport, name: string) => steps.find((each) => each.name === name)!;

test('its scores are derived again by the same grader, and by no other', async () => {
  const data = file('rows.jsonl');
  writeFileSync(
    data,
    WORDS.flatMap((a) =>
      WORDS.map((b) => `${JSON.stringify({ prompt: `${a} ${b}?`, right: a })}\n`),
    ).join(''),
  );
  const grader = file('grader.json');
  const grading = {
    type: 'score_model',
    name: 'likeness',
    model: 'tiny',
    input: [{ role: 'user', content: '{{item.right}}: {{sample.output_text}}' }],
    range: [0, 9],
    pass_threshold: 1,
  };
  writeFileSync(grader, JSON.stringify(grading));
  const { folder: out } = await run(
    {
      ...shortestRun(data, model),
      check: `model:${grader}`,
      sampling: { rollouts: 16, samples: 4, maxTokens: 4, judgeTruncated: true, style: 'plain' },
      evaluation: { devSize: 2, testSize: 4 },
    },
    { out: file('run') },
  );
  const tiny = (await resolveModel('tiny')).path;
  expect(readManifest(out).start.settings).toMatchObject({
    check: 'model:grader.json',
    grader: { model: path.basename(tiny), sha256: await hashFile(tiny) },
  });
  expect(readFileSync(path.join(out, 'manifest.json'), 'utf8')).not.toContain(folder);
  const reader = new LogReader(runPaths(out).log, RUN_STREAMS);
  const scores = [...reader.records({ stream: 'rollouts' })].flatMap(
    ({ payload: { kind, verdict } }) =>
      kind === 'rollout' ? [verdict as { kind: string; score?: number }] : [],
  );
  reader.close();
  expect(scores).toHaveLength(16);
  for (const { kind, score } of scores)
    expect([kind, score]).toEqual([expect.stringMatching(/pass|fail/), expect.any(Number)]);

  const judge = (check: string): Promise<JudgeReport> =>
    judgeRun({ folder: out, model, task: data, check });
  const same = await judge(`model:${grader}`);
  expect([same.verdict, same.failure, same.heldOut?.after.differing]).toEqual(['pass', null, 0]);
  expect(step(same, 'rollout_verification').detail).toMatch(/^16 rollouts judged again/);

  writeFileSync(file('other.json'), JSON.stringify({ ...grading, pass_threshold: 2 }));
  const otherModel = file('other.gguf');
  copyFileSync(model, otherModel);
  for (const check of [`model:${file('other.json')}`, `model:${grader}@${otherModel}`]) {
    const other = await judge(check);
    expect([other.verdict, other.unverified, other.heldOut]).toEqual(['not_verified', 16, null]);
    expect(step(other, 'rollout_verification')).toMatchObject({
      status: 'skipped',
      detail: expect.stringMatching(
        /with its split and its check, has SHA-256 .*; 16 model verdicts not verified$/,
      ),
    });
  }
  const none = await judgeRun({ folder: out, model, task: data });
  expect([none.verdict, none.unverified]).toEqual(['not_verified', 16]);
});
