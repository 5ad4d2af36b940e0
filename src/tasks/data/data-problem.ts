import type { Json } from '../../canonical-json.js';
import type { Dictionary } from '../../dictionary.js';
import type { ChatMessage, Problem } from '../task.js';

/** A row of a data file as a problem; its id is of its content, wherever in the file it stands. */
export interface DataContent {
  readonly tier: string;
  readonly messages: readonly ChatMessage[];
  /** In the form that the check compares with: the text of the answer, or its JSON; null where the check needs none. */
  readonly answer: Json;
  /** Of a choice. */
  readonly choices?: readonly string[];
  /** What else the row has. */
  readonly fields?: Dictionary<Json>;
}

export type DataProblem = DataContent & Problem;
