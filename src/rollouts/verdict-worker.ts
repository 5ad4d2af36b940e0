/** Worker thread that judges replies with a built-in task, while the main thread feeds the decoder. */
import { parentPort, workerData } from 'node:worker_threads';
import { openTask } from '../tasks/open-task.js';
import type { FinishReason, Judgement, Problem } from '../tasks/task.js';

export interface VerdictRequest {
  readonly id: number;
  readonly problem: Problem;
  readonly text: string;
  readonly finish: FinishReason;
}
export type VerdictReply = { readonly id: number } & ({ readonly judgement: Judgement } | { readonly failure: string });

const opening = openTask((workerData as { task: string }).task);
parentPort!.on('message', ({ id, problem, text, finish }: VerdictRequest) => {
  opening
    .then((task) => task.judge(problem, text, finish))
    .then(
      (judgement) => parentPort!.postMessage({ id, judgement } satisfies VerdictReply),
      (error: unknown) =>
        parentPort!.postMessage({ id, failure: error instanceof Error ? error.message : String(error) } satisfies VerdictReply),
    );
});
