import type { Json } from '../../canonical-json.js';
import type { Dictionary } from '../../dictionary.js';
import type { ChatMessage, Problem } from '../task.js';

/** Answer of a row, in the form that the check compares with. */
export interface CheckedAnswer {
  /** Text of the answer, or its JSON; null if the check needs none. */
  readonly answer: Json;
  /**
   * Numbers of a JSON answer that a double cannot hold, by JSON pointer; the answer holds their
   * digits as texts.
   */
  readonly digits?: Dictionary<string>;
  /** Labels of a choice. */
  readonly choices?: readonly string[];
}

/** Row of a data file as a problem; its id depends on its content, not on its place in the file. */
export interface DataContent extends CheckedAnswer {
  readonly tier: string;
  readonly messages: readonly ChatMessage[];
  /** Other members of the row. */
  readonly fields?: Dictionary<Json>;
}

export type DataProblem = DataContent & Problem;
