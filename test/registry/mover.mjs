/**
 * The kill campaign's victim and the racers. Arguments: mode, registry, home, folder of the
 * adapters, then of `move` the durable state at which it kills itself (by its number from the
 * start, or as STATE:NUMBER from the first move), of `race` the adapter that it wants. What it
 * prints is written before it goes on.
 */
import { subscribe } from 'node:diagnostics_channel';
import { writeSync } from 'node:fs';
import { once } from 'node:events';
import path from 'node:path';
import { Registry } from '../../dist/src/registry/registry.js';
import { repairRegistry } from '../../dist/src/registry/upkeep.js';
import { witnessInProcess } from '../../dist/bench/log.js';

const [mode, folder, home, adapters, argument] = process.argv.slice(2);
const say = (line) => writeSync(1, `${line}\n`);
const registry = new Registry({ folder, home, signer: witnessInProcess(home) });
const slot = { scenario: 'sql' };

if (mode === 'race') {
  const { state } = await registry.read();
  const expected = state.aliases[0].current;
  say('ready');
  await once(process.stdin, 'data');
  try {
    await registry.move({ slot, id: argument, force: true, expected });
    say('moved');
  } catch (error) {
    say(error.code);
  }
  process.exit();
}

const [kind, number] = (argument ?? '').includes(':') ? argument.split(':') : [null, argument];
let counting = kind === null;
let left = Number(number);
subscribe('isopro-native:durable', (state) => {
  if (!counting || (kind !== null && state !== kind)) return;
  left -= 1;
  if (left > 0) return;
  say(`killed ${state}`);
  process.kill(process.pid, 'SIGKILL');
});
const publish = async (n) => {
  const file = path.join(adapters, `${n}.gguf`);
  return (
    await registry.publish({
      file,
      base: { name: 'tiny.gguf', sha256: 'ba'.repeat(32) },
      settings: { n },
    })
  ).id;
};
const ids = [await publish(1), await publish(2)];
await repairRegistry(registry);
counting = true;
for (;;) {
  for (const id of ids) {
    const current = (await registry.read()).state.aliases[0]?.current ?? null;
    if (current === id) continue;
    say(`next ${id}`);
    await registry.move({ slot, id, force: true });
    say(`done ${id}`);
  }
  const { state } = await registry.read();
  const { current, previous } = state.aliases[0];
  if (previous.at(-1) === null) continue;
  say(`next ${previous.at(-1)}`);
  await registry.rollback({ slot });
  say(`done ${previous.at(-1)}`);
  if (current === null) break;
}
