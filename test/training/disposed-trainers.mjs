// Three trainers one after the other, each disposed of; prints what they held at most and what is
// left, in bytes of anonymous memory. A process of its own: what else a process of tests holds
// comes and goes.
import { readFileSync } from 'node:fs';
import { createTrainer } from '../../dist/src/index.js';

const path = process.argv[2];
const anonymous = () =>
  Number(/^RssAnon:\s+(\d+) kB/m.exec(readFileSync('/proc/self/status', 'utf8'))[1]) * 1024;
// 120 MB of activations a trainer, in pieces that the allocator would keep
const batch = Array.from({ length: 40 }, (_, number) => ({
  tokenIds: Int32Array.from({ length: 500 }, (_, i) => 3 + (i === 0 ? number : i % 50)),
  labelMask: new Uint8Array(500).fill(1, 1),
}));
const before = anonymous();
let held = 0;
for (let i = 0; i < 3; i++) {
  const trainer = await createTrainer({ path });
  await trainer.step(batch, { microBatches: [40] });
  held = Math.max(held, anonymous() - before);
  await trainer.dispose();
}
console.log(JSON.stringify({ held, left: anonymous() - before }));
