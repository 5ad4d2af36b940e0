/**
 * Jest's Node environment in a context whose global object is an ordinary one. In the one that jest makes each use of a global, `Math` or
 * `Uint8Array` in a loop for instance, is a call through a proxy, some ten times as dear. Where Node has no such contexts (before 20.18),
 * jest's own is taken.
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
}
