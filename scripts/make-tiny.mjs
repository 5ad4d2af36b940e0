/**
 * npm run make:tiny -- [--folder F] [--threads N] [--until STEP] [--out FILE]: trains the embedded
 * model, or continues where it stopped, and writes it. Everything it needs to continue lies in the
 * folder (default build/tiny).
 */
import { appendFileSync, mkdirSync } from 'node:fs';
import { parseArgs } from 'node:util';
import path from 'node:path';
import { pretrain, SETTINGS } from '../dist/src/embedded/pretrain.js';

const { values } = parseArgs({
  options: {
    folder: { type: 'string', default: 'build/tiny' },
    threads: { type: 'string', default: '2' },
    until: { type: 'string' },
    out: { type: 'string', default: 'assets/models/tiny.gguf' },
  },
});
const { folder } = values;
mkdirSync(folder, { recursive: true });

let [tokens, loss, count, since] = [0, 0, 0, performance.now()];
const trainer = await pretrain(folder, SETTINGS, {
  threads: Number(values.threads),
  checkpointSteps: 250,
  ...(values.until !== undefined && { untilStep: Number(values.until) }),
  onStep: (stats) => {
    tokens += stats.tokens;
    loss += stats.loss;
    count++;
    if (stats.step % 100 !== 0) return;
    const line = {
      step: stats.step,
      loss: Number((loss / count).toFixed(4)),
      gradNorm: Number(stats.gradNorm.toFixed(3)),
      learningRate: stats.learningRate,
      seconds: Number(((performance.now() - since) / 1e3).toFixed(1)),
      labelled: tokens,
    };
    appendFileSync(path.join(folder, 'steps.jsonl'), `${JSON.stringify(line)}\n`);
    console.error(`step ${line.step}  loss ${line.loss}  norm ${line.gradNorm}  ${line.seconds} s`);
    [tokens, loss, count, since] = [0, 0, 0, performance.now()];
  },
});
const { sha256, bytes } = await trainer.exportModel(values.out, { type: 'q8_0' });
await trainer.dispose();
console.error(`${values.out}: ${bytes} bytes, SHA-256 ${sha256}`);
