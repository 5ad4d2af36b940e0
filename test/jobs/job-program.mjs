import { spawn } from 'node:child_process';

/**
 * In place of the command line: does at once what the setting `system` of a job says, as a command
 * would. In place of the worker (without arguments): does it with the settings that it is sent.
 */
const work =
  process.argv.length > 2 ? null : await new Promise((resolve) => process.once('message', resolve));
const stated = (flag) =>
  process.argv
    .filter((word) => word.startsWith(`--${flag}=`))
    .map((word) => word.slice(flag.length + 3))
    .at(-1);
const tell = (type, data) =>
  new Promise((resolve) => process.send({ type, data }, undefined, undefined, resolve));
const complain = (code, message) =>
  process.stderr.write(`${JSON.stringify({ error: { code, message, remedy: 'None.' } })}\n`);
let isLeaving = false;
process.on('disconnect', () => isLeaving || process.kill(process.pid, 'SIGKILL'));
const leave = () => {
  isLeaving = true;
  process.disconnect();
};
process.on('SIGINT', () => {
  complain('ABORTED', 'interrupted');
  process.exit(130);
});

const acts = {
  async answer() {
    await tell('progress', { stage: 'evaluating', done: 1, total: 2, unit: 'answers' });
    await tell('notice', { text: '<b>not said in HTML</b>' });
    await tell('nothing of this kind', {});
    const { ISOPRO_API_KEY, ISOPRO_ADMIN_KEY } = process.env;
    process.stdout.write(
      JSON.stringify(
        { args: process.argv.slice(2), secrets: { ISOPRO_API_KEY, ISOPRO_ADMIN_KEY } },
        null,
        2,
      ),
    );
  },
  /** Until it is told to end. */
  async hold() {
    await tell('progress', { stage: 'holding', done: 0, total: 1, unit: '' });
    setInterval(() => {}, 1000);
  },
  fail() {
    process.stderr.write('a line of something else\n');
    complain('CONTEXT_OVERFLOW', 'it is too long');
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
    process.stdout.write('"left"');
  },
  /** Ends well, and says nothing. */
  silent() {},
};

if (work !== null) {
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
