/**
 * Loaded by run and witness before their own code (NODE_OPTIONS=--import): notes every durable
 * state in the file ISOPRO_STATES, and at the one that ISOPRO_STOP names (`{state, occurrence,
 * ends}`) ends the run, the witness or both, as a kill or a power cut would.
 */
import { subscribe } from 'node:diagnostics_channel';
import { appendFileSync, readFileSync } from 'node:fs';

const { ISOPRO_STATES: noted, ISOPRO_STOP: stop } = process.env;
// the witness inherits it from its run
process.env.ISOPRO_RUN ??= String(process.pid);
const run = Number(process.env.ISOPRO_RUN);
const target = stop === undefined ? null : JSON.parse(stop);

subscribe('isopro-native:durable', (state) => {
  appendFileSync(noted, `${state}\n`);
  if (state !== target?.state) return;
  const occurrence = readFileSync(noted, 'utf8')
    .split('\n')
    .filter((each) => each === state).length;
  if (occurrence !== target.occurrence) return;
  if (target.ends !== 'witness') process.kill(run, 'SIGKILL');
  if (target.ends !== 'run') process.kill(process.pid, 'SIGKILL');
});
