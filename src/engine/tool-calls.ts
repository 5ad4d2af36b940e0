/**
 * Calls of tools as text, in which every model is shown them and writes them: as models of the
 * Hermes and Qwen families do, an object with `name` and `arguments` between two tags, and what a
 * call gave between two others.
 */
export const CALL_TAGS = ['<tool_call>', '</tool_call>'] as const;

export interface ToolCall {
  readonly name: string;
  /** JSON. */
  readonly arguments: string;
}

/** A call as the model is shown an earlier one. */
export function callText({ name, arguments: json }: ToolCall): string {
  const [begin, end] = CALL_TAGS;
  return `${begin}\n${callJson(name, json)}\n${end}`;
}

function callJson(name: string, json: string): string {
  try {
    JSON.parse(json);
    return `{"name":${JSON.stringify(name)},"arguments":${compactJson(json)}}`;
  } catch {
    return JSON.stringify({ name, arguments: json }); // no JSON: shown as the text that it is
  }
}

/**
 * JSON without blanks between its parts, which stay as they were written: a number keeps its
 * digits.
 */
export const compactJson = (json: string): string => json.replace(/("(?:[^"\\]|\\.)*")|\s+/g, '$1');

/** How the model is shown what a call gave. */
export const resultText = (text: string): string => `<tool_response>\n${text}\n</tool_response>`;
