/**
 * Runs from before the renderer was corrected, on models whose template is rendered otherwise
 * since. The judge's prompts are not theirs: that accuses nobody. They are recorded here by a
 * renderer that is made to write otherwise, under the id of then.
 */
import { afterAll, afterEach, beforeAll, expect, jest, test } from '@jest/globals';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { loadModel, Model } from '../../src/engine/model.js';
import { PromptRenderer } from '../../src/engine/prompt-renderer.js';
import { judgeRun } from '../../src/judge/judge.js';
import { readManifest } from '../../src/run-folder/manifest.js';
import { run } from '../../src/training/loop.js';
import { ONE_TIER_TASK, shortestRun, writeLetterModel } from '../models/letters.js';
import { CHATML_TEMPLATE } from '../models/vocabulary.js';

const message = (content: string): string =>
  `<|im_start|>{{ m.role }}\n{{ ${content} }}<|im_end|>\n`;
const GENERATION = '{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}';
/** ChatML, each with a construct whose rendering was corrected. */
const CORRECTED = {
  'strip with characters': `{% for m in messages %}${message("m.content.strip('\\n')")}{% endfor %}${GENERATION}`,
  'a message that is passed over':
    `{% for m in messages %}{% if not m %}{% continue %}{% endif %}${message('m.content')}{% endfor %}` +
    GENERATION,
  'a list as a text': `{% for m in messages %}${message('m.content')}{% endfor %}${GENERATION}{% if not messages %}{{ [1] }}{% endif %}`,
};

let folder: string;
const file = (name: string): string => path.join(folder, name);
beforeAll(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'isopro-renderer-'));
  writeFileSync(file('letters.mjs'), ONE_TIER_TASK);
});
afterEach(() => {
  jest.restoreAllMocks();
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** The letter model with another template of at most as many bytes. */
function writeModel(to: string, template: string): void {
  writeLetterModel(to);
  const comment = Buffer.byteLength(CHATML_TEMPLATE) - Buffer.byteLength(template);
  expect(comment === 0 || comment >= 4).toBe(true);
  const padded = comment === 0 ? template : `${template}{#${' '.repeat(comment - 4)}#}`;
  writeFileSync(
    to,
    Buffer.from(
      readFileSync(to)
        .toString('latin1')
        .replace(CHATML_TEMPLATE, () => padded),
      'latin1',
    ),
  );
}

/** What is rendered until the mocks are restored has other tokens, under the id of then. */
function renderAsBefore(): void {
  const renderAll = PromptRenderer.prototype.renderAll;
  jest.spyOn(Model.prototype, 'rendererId', 'get').mockImplementation(function (this: Model) {
    return this.formerRendererId!;
  });
  jest.spyOn(PromptRenderer.prototype, 'renderAll').mockImplementation(function (
    this: PromptRenderer,
    ...given
  ) {
    return renderAll.apply(this, given).map((prompt) => ({
      ...prompt,
      tokenIds: Int32Array.from([prompt.tokenIds[0]!, ...prompt.tokenIds]),
    }));
  });
}

const judged = (name: string) =>
  judgeRun({ folder: file(name), model: file(`${name}.gguf`), task: file('letters.mjs') });

test.each(Object.entries(CORRECTED).map(([what, template], i) => [what, template, `run-${i}`]))(
  'with %s: an honest run of before is not verified, by name, and never accused',
  async (_, template, name) => {
    writeModel(file(`${name}.gguf`), template);
    renderAsBefore();
    await run(shortestRun(file('letters.mjs'), file(`${name}.gguf`)), { out: file(name) });
    jest.restoreAllMocks();
    const { verdict, failure, notVerified, steps } = await judged(name);
    expect([verdict, failure]).toEqual(['not_verified', null]);
    expect(notVerified.join('\n')).toMatch(
      /an earlier version of isopro-native \([0-9a-f]{12}…\), which has since been corrected/,
    );
    expect(
      steps.filter(({ status }) => status === 'skipped').map(({ name: step }) => step),
    ).toEqual(
      expect.arrayContaining(['rollout_verification', 'rollout_resampling', 'test_set_evaluation']),
    );
  },
  120_000,
);

test('the same prompts under the id of now are a hard fail, and a run of now passes', async () => {
  const template = CORRECTED['strip with characters'];
  for (const name of ['now', 'lied']) writeModel(file(`${name}.gguf`), template);
  await run(shortestRun(file('letters.mjs'), file('now.gguf')), { out: file('now') });
  expect((await judged('now')).verdict).toBe('pass');
  renderAsBefore();
  const { rendererId } = readManifest(file('now')).start.evaluation;
  jest.spyOn(Model.prototype, 'rendererId', 'get').mockReturnValue(rendererId);
  await run(shortestRun(file('letters.mjs'), file('lied.gguf')), { out: file('lied') });
  jest.restoreAllMocks();
  expect(await judged('lied')).toMatchObject({
    verdict: 'hard_fail',
    failure: { name: 'rollout_verification' },
  });
}, 120_000);

test('a run of another renderer, of no version that is known here, is not verified', async () => {
  writeModel(file('unknown.gguf'), CHATML_TEMPLATE);
  jest.spyOn(Model.prototype, 'rendererId', 'get').mockReturnValue('ab'.repeat(32));
  await run(shortestRun(file('letters.mjs'), file('unknown.gguf')), { out: file('unknown') });
  jest.restoreAllMocks();
  const { verdict, notVerified } = await judged('unknown');
  expect([verdict, notVerified.join()]).toEqual([
    'not_verified',
    expect.stringContaining('its prompts were rendered by abababababab…'),
  ]);
}, 120_000);

test('an interrupted run of before is refused by name, and goes on where nothing was corrected', async () => {
  writeModel(file('interrupted.gguf'), CORRECTED['a message that is passed over']);
  await using model = await loadModel(file('interrupted.gguf'), { threads: 1 });
  expect(model.formerRendererId).not.toBeNull();
  const settings = { ...shortestRun(file('letters.mjs'), file('interrupted.gguf')), iterations: 2 };
  const cut = new AbortController();
  const onIteration = (): void => cut.abort();
  renderAsBefore();
  await expect(
    run(settings, { out: file('interrupted'), signal: cut.signal, onIteration }),
  ).rejects.toMatchObject({ code: 'ABORTED' });
  jest.restoreAllMocks();
  await expect(run(settings, { out: file('interrupted') })).rejects.toMatchObject({
    code: 'RUN_DIFFERS',
    message: expect.stringMatching(/an earlier version of isopro-native \([0-9a-f]{12}…\)/),
    remedy: expect.stringContaining('Start again in another folder with --out'),
  });
  renderAsBefore();
  await run(settings, { out: file('interrupted') }); // with the version that began it
  expect(readManifest(file('interrupted')).result).not.toBeNull();
}, 120_000);
