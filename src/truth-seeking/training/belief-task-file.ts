import { fileURLToPath } from 'node:url';

/** The task of `belief-task.ts`, as `openTask` and `run --task` take it. */
export const BELIEF_TASK = fileURLToPath(new URL('./belief-task.js', import.meta.url));
