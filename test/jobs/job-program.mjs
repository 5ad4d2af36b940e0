import { spawn } from 'node:child_process';

/**
 * In place of the worker, and of the command line of kinds that are no operation: does at once what
 * the setting `system` of a job says.
 */
const words = process.argv.slice(2);
/** What a worker is given. */
const work = words.length > 0 ? null : await new Promise((given) => process.once('message', given));
const stated = (flag) =>
  work?.settings[flag] ??
  work?.settings.sampling?.[flag] ??
  words
    .filter((word) => word.startsWith(`--${flag}=`))
    .map((word) => word.slice(flag.length + 3))
    .at(-1);
const send = (answer) =>
  new Promise((resolve) => process.send(answer, undefined, undefined, resolve));
const tell = (type, data) => send({ type, data });
const complain = (code, message) =>
  send({ type: 'error', error: { code, message, remedy: 'None.' } });
let isLeaving = false;
process.on('disconnect', () => isLeaving || process.kill(process.pid, 'SIGKILL'));
const leave = () => {
  isLeaving = true;
  process.disconnect();
};
process.on('SIGINT', async () => {
  await complain('ABORTED', 'interrupted');
  process.exit(130);
});

const acts = {
  async answer() {
    await tell('progress', { stage: 'evaluating', done: 1, total: 2, unit: 'answers' });
    await tell('notice', { text: '<b>not said in HTML</b>' });
    await tell('nothing of this kind', {});
    const { ISOPRO_API_KEY, ISOPRO_ADMIN_KEY } = process.env;
    const result = { words, work, secrets: { ISOPRO_API_KEY, ISOPRO_ADMIN_KEY } };
    await send({ type: 'result', result });
  },
  /** Until it is told to end. */
  async hold() {
    await tell('progress', { stage: 'holding', done: 0, total: 1, unit: '' });
    setInterval(() => {}, 1000);
  },
  async fail() {
    process.stderr.write('a line of something else\n');
    await complain('CONTEXT_OVERFLOW', 'it is too long');
    process.exitCode = 1;
  },
  die() {
    process.kill(process.pid, 'SIGKILL');
  },
  /**
   * Leaves a process in a session of its own, which holds its pipes, and tells an event that says
   * nothing.
   */
  async leaver() {
    spawn('sleep', ['60'], { detached: true, stdio: ['ignore', 'ignore', 'inherit'] }).unref();
    await tell('progress');
    await send({ type: 'result', result: 'left' });
  },
  /** Ends well, and says nothing. */
  silent() {},
};

if (work?.operation === 'train') {
  for (const step of [1, 2]) await tell('step', { step, loss: 2 / step });
  const { operation, settings } = work;
  const result = { operation, settings, adapter: settings.out };
  await new Promise((resolve) =>
    process.send({ type: 'result', result }, undefined, undefined, resolve),
  );
  leave();
} else {
  await acts[stated('system') ?? 'answer']();
  if (stated('system') !== 'hold') leave();
}
