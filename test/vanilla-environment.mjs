/**
 * Jest's Node environment in a context whose global object is an ordinary one. In the one that jest
 * makes each use of a global, `Math` or `Uint8Array` in a loop for instance, is a call through a
 * proxy, some ten times as dear. Where Node has no such contexts (before 20.18), jest's own is
 * taken.
 *
 * A process that a suite leaves behind, because a test failed before its end, is killed: with it
 * alive jest would never exit.
 */
import vm from 'node:vm';
import { TestEnvironment } from 'jest-environment-node';

export default class VanillaEnvironment extends TestEnvironment {
  constructor(config, context) {
    const { createContext, constants } = vm;
    const ordinary = constants?.DONT_CONTEXTIFY;
    if (ordinary !== undefined) vm.createContext = () => createContext(ordinary);
    try {
      super(config, context);
    } finally {
      vm.createContext = createContext;
    }
  }

  async teardown() {
    for (const handle of process._getActiveHandles())
      if (handle.constructor.name === 'ChildProcess' && handle.exitCode === null)
        handle.kill('SIGKILL');
    await super.teardown();
  }
}
