/**
 * npm run measure:tiny -- [--model FILE] [--test]: measures the embedded model on the frozen sets
 * and writes assets/models/tiny.json, and from it the tables of assets/models/MODEL_CARD.md. The
 * test set is read with --test only.
 */
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { loadModel } from '../dist/src/engine/model.js';
import { measure } from '../dist/src/embedded/measure.js';
import { renderFigures } from '../dist/src/embedded/figures.js';
import { resolveSettings } from '../dist/src/training/settings.js';

const { values } = parseArgs({
  options: {
    model: { type: 'string', default: 'assets/models/tiny.gguf' },
    test: { type: 'boolean', default: false },
  },
});
const { threads, contextTokens, matmul } = resolveSettings({}).model;
const figures = 'assets/models/tiny.json';
const card = 'assets/models/MODEL_CARD.md';

const sha256 = createHash('sha256').update(readFileSync(values.model)).digest('hex');
const before = existsSync(figures) ? JSON.parse(readFileSync(figures, 'utf8')) : {};
const model = await loadModel(values.model, { threads, contextTokens, matmul });
const result = {
  model: sha256,
  bytes: readFileSync(values.model).length,
  greedyDev: await measure(model, 'dev', { temperature: 0 }),
  sampledDev: await measure(model, 'dev', { temperature: 0.8, samplesPerProblem: 8 }),
};
// A figure of the test set belongs to the very file that it was measured on.
if (values.test) result.greedyTest = await measure(model, 'test', { temperature: 0 });
else if (before.model === sha256 && before.greedyTest !== undefined)
  result.greedyTest = before.greedyTest;
await model.dispose();
writeFileSync(figures, `${JSON.stringify(result, null, 1)}\n`);
const text = renderFigures(result);
console.log(text);
if (existsSync(card)) {
  writeFileSync(
    card,
    readFileSync(card, 'utf8').replace(
      /(<!-- figures -->\n)[\s\S]*(<!-- end of figures -->)/,
      (_, begin, end) => `${begin}${text}\n${end}`,
    ),
  );
}
