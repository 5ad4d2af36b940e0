/** Every operation. */
import { promote } from './gates/promote.js';
import { judge } from './judge.js';
import type { Operation } from './operation.js';

// biome-ignore lint/suspicious/noExplicitAny: each has settings and a result of its own
export const OPERATIONS: readonly Operation<any, unknown>[] = [judge, promote];
