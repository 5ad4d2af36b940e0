/**
 * Jest's Node environment in a context whose global object is an ordinary one. In the one that jest
 * makes each use of a global, `Math` or `Uint8Array` in a loop for instance, is a call through a
 * proxy, some ten times as dear. Where Node has no such contexts (before 20.18), jest's own is
 * taken.
 *
 * A process that a suite leaves behind, because a test failed before its end, is killed: with it
 * alive jest would never exit.
 *
 * ISOPRO_SUITE_TIMES=FILE appends a line a suite: its seconds of processor, with those of the
 * processes that it started and waited for, and its name.
 */
import { appendFileSync, readFileSync } from 'node:fs';
import vm from 'node:vm';
import { TestEnvironment } from 'jest-environment-node';

const TIMES = process.env.ISOPRO_SUITE_TIMES;

/** Of this process and of those that it has waited for: Linux counts in hundredths. */
function processorSeconds() {
  const [user, system, childUser, childSystem] = readFileSync('/proc/self/stat', 'utf8')
    .replace(/^.*\) /s, '')
    .split(' ')
    .slice(11, 15)
    .map(Number);
  return (user + system + childUser + childSystem) / 100;
}

export default class VanillaEnvironment extends TestEnvironment {
  #begun;
  #suite;

  constructor(config, context) {
    const { createContext, constants } = vm;
    const begun = TIMES === undefined ? 0 : processorSeconds();
    const ordinary = constants?.DONT_CONTEXTIFY;
    if (ordinary !== undefined) vm.createContext = () => createContext(ordinary);
    try {
      super(config, context);
    } finally {
      vm.createContext = createContext;
    }
    this.#begun = begun;
    this.#suite = context.testPath;
  }

  async teardown() {
    for (const handle of process._getActiveHandles())
      if (handle.constructor.name === 'ChildProcess' && handle.exitCode === null)
        handle.kill('SIGKILL');
    await super.teardown();
    if (TIMES !== undefined)
      appendFileSync(TIMES, `${(processorSeconds() - this.#begun).toFixed(1)} ${this.#suite}\n`);
  }
}
