import type { Json } from '../../canonical-json.js';
import type { Dictionary } from '../../dictionary.js';
import type { ChatMessage, Problem } from '../task.js';

/** What is kept of a row's answer, in the form that the check compares with. */
export interface CheckedAnswer {
  /** The text of the answer, or its JSON; null where the check needs none. */
  readonly answer: Json;
  /**
   * Numbers of a JSON answer that a double does not hold, by JSON pointer; the answer has their
   * digits as texts.
   */
  readonly digits?: Dictionary<string>;
  /** Of a choice. */
  readonly choices?: readonly string[];
}

/** A row of a data file as a problem; its id is of its content, wherever in the file it stands. */
export interface DataContent extends CheckedAnswer {
  readonly tier: string;
  readonly messages: readonly ChatMessage[];
  /** What else the row has. */
  readonly fields?: Dictionary<Json>;
}

export type DataProblem = DataContent & Problem;
