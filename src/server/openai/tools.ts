/**
 * Tools: instructions for the model, the grammar of its calls, and a reader of calls. The grammar
 * restricts calls to the tools and to the schemas of their parameters.
 */
import { SchemaGrammar } from '../../engine/json-schema.js';
import { CALL_TAGS, compactJson, type ToolCall } from '../../engine/tool-calls.js';
import { given as stated } from '../../given.js';
import { asMeant } from '../../host/structured-reply.js';
import { IsoproError } from '../../errors.js';
import { invalid } from '../failures.js';
import type { ToolBody, ToolChoiceBody } from './requests.js';

const [BEGIN, END] = CALL_TAGS;
/** Calls of one reply, at most. */
const MOST_CALLS = 16;

export interface ToolPlan {
  /** Text before the conversation; the model learns of the tools from it alone. */
  readonly instructions: string;
  readonly grammar: string;
  /** Beginning of calls: a stop text does not end them. */
  readonly stopBefore: string;
}

const parametersOf = ({ function: { parameters } }: ToolBody): object | boolean =>
  parameters ?? { type: 'object', properties: {} };

function instructionsOf(tools: readonly ToolBody[], mustCall: boolean): string {
  const described = tools.map((tool) => {
    const { name, description } = tool.function;
    return JSON.stringify({
      name,
      ...stated({ description }),
      parameters: parametersOf(tool),
    });
  });
  return [
    mustCall ? 'Answer by calling tools.' : 'You may answer by calling tools.',
    'The tools, each with the JSON Schema of its parameters:',
    '<tools>',
    ...described,
    '</tools>',
    'To call one, write its name and arguments as JSON, like this:',
    BEGIN,
    '{"name": NAME, "arguments": {ARGUMENTS}}',
    END,
  ].join('\n');
}

/**
 * The rules of a text without the opening tag, one for each part of it that may have been written,
 * and of one that ends with it.
 */
function textRules(): string {
  const next = [...BEGIN];
  const rules = next.map((c, i) => {
    const goesOn = i + 1 < next.length ? `"${c}" text-${i + 1}` : `"${c}" after-tag`;
    // A tag begins with the one < that it has.
    const begins = i === 0 ? [] : ['"<" text-1'];
    const other = `[^${i === 0 ? '' : '<'}${c}] text-0`;
    return `text-${i} ::= ${['""', goesOn, ...begins, other].join(' | ')}`;
  });
  return `${rules.join('\n')}\n`;
}

/**
 * Rule of a tool's calls. Parts of a schema that a grammar cannot express are in the instructions
 * only, and the model may break them if the tool is not strict.
 * @param at the tool's place in the request
 */
function callRule(grammar: SchemaGrammar, tool: ToolBody, at: number): string {
  const { name, strict = false } = tool.function;
  try {
    const given = grammar.add(asMeant(parametersOf(tool)), { objects: true, partly: !strict });
    return `"{" ws "\\"name\\"" colon "\\"${name}\\"" comma "\\"arguments\\"" colon ${given} ws "}"`;
  } catch (error) {
    if (!(error instanceof IsoproError)) throw error;
    throw invalid(`tools[${at}].function.parameters`, error.message, 'grammar_invalid');
  }
}

/** @param tools by their places in the request */
function callGrammar(
  tools: readonly (readonly [number, ToolBody])[],
  { text, most }: { text: boolean; most: number },
): string {
  const grammar = new SchemaGrammar();
  const calls = tools.map(([at, tool]) => callRule(grammar, tool, at));
  const more = most > 1 ? ` ("\\n" "${BEGIN}" after-one){0,${most - 1}}` : '';
  return [
    text ? 'root ::= text-0' : `root ::= "${BEGIN}" after-tag`,
    `after-one ::= "\\n" call "\\n${END}"`,
    `after-tag ::= after-one${more}`,
    text ? textRules() : '',
    `call ::= ${calls.join(' | ')}`,
    grammar,
  ].join('\n');
}

/**
 * @returns null where the model is to know of no tools
 * @throws RequestFailure
 */
export function planTools(
  tools: readonly ToolBody[] | undefined,
  choice: ToolChoiceBody = 'auto',
  parallel = true,
): ToolPlan | null {
  const all = tools ?? [];
  const names = all.map((tool) => tool.function.name);
  const twice = names.findIndex((name, i) => names.indexOf(name) < i);
  if (twice >= 0)
    throw invalid(`tools[${twice}].function.name`, `two tools are named ${names[twice]}`);
  if (all.length === 0) {
    if (typeof choice === 'object' || choice === 'required')
      throw invalid('tool_choice', 'tool_choice asks for a call, but there are no tools');
    return null;
  }
  if (choice === 'none') return null;
  const wanted = [...all.entries()].filter(
    ([, tool]) => typeof choice !== 'object' || tool.function.name === choice.function.name,
  );
  if (wanted.length === 0) throw invalid('tool_choice', 'tool_choice names none of the tools');
  const one = typeof choice === 'object' || !parallel;
  return {
    instructions: instructionsOf(all, choice !== 'auto'),
    grammar: callGrammar(wanted, { text: choice === 'auto', most: one ? 1 : MOST_CALLS }),
    stopBefore: BEGIN,
  };
}

/** Reads a reply that follows a plan's grammar, in pieces as they come. */
export class CallReader {
  #held = '';
  #inCall = false;
  #called = false;
  #isCut = false;

  /** Whether the reply ended within the arguments of its last call. */
  get isCut(): boolean {
    return this.#isCut;
  }

  /** The text and the calls that are whole by now. */
  read(piece: string): { text: string; calls: ToolCall[] } {
    this.#held += piece;
    let text = '';
    const calls: ToolCall[] = [];
    for (;;) {
      // No string of JSON has a line break in it.
      const tag = this.#inCall ? `\n${END}` : BEGIN;
      const at = this.#held.indexOf(tag);
      if (at < 0) break;
      const before = this.#held.slice(0, at);
      this.#held = this.#held.slice(at + tag.length);
      if (this.#inCall) calls.push(callOf(before));
      else if (!this.#called) text += before;
      this.#called ||= this.#inCall;
      this.#inCall = !this.#inCall;
    }
    if (!this.#inCall && !this.#called) {
      // What may become a tag is held back.
      let keep = Math.min(this.#held.length, BEGIN.length - 1);
      while (keep > 0 && !BEGIN.startsWith(this.#held.slice(-keep))) keep--;
      text += this.#held.slice(0, this.#held.length - keep);
      this.#held = this.#held.slice(this.#held.length - keep);
    }
    return { text, calls };
  }

  /**
   * Remainder of a reply that was cut off: text, or the unfinished call with the arguments that
   * were written.
   */
  rest(): { text: string; calls: ToolCall[] } {
    const held = this.#held;
    this.#held = '';
    if (!this.#inCall) return { text: this.#called ? '' : held, calls: [] };
    const [, name, written] = BEGUN.exec(held) ?? [];
    if (name === undefined || written === undefined) return { text: '', calls: [] };
    const whole = wholeCall(held);
    this.#isCut = whole === null;
    return {
      text: '',
      calls: [whole ?? { name: JSON.parse(name) as string, arguments: written.trim() }],
    };
  }
}

/** Reads a whole reply; without tools all of it is text. */
export function readReply(
  tools: ToolPlan | null,
  reply: string,
): { readonly text: string; readonly calls: readonly ToolCall[]; readonly isCut: boolean } {
  if (tools === null) return { text: reply, calls: [], isCut: false };
  const reader = new CallReader();
  const [read, rest] = [reader.read(reply), reader.rest()];
  return {
    text: read.text + rest.text,
    calls: [...read.calls, ...rest.calls],
    isCut: reader.isCut,
  };
}

/** A call as far as its name, and what there is of its arguments. */
const BEGUN = /^\s*\{\s*"name"\s*:\s*("(?:[^"\\]|\\.)*")\s*(?:,\s*(?:"arguments"\s*:\s*([^]*))?)?$/;

/** A call of which only the closing tag is missing, or part of it. */
function wholeCall(held: string): ToolCall | null {
  const last = held.lastIndexOf('}');
  try {
    return callOf(held.slice(0, last + 1));
  } catch {
    return null;
  }
}

/** Parses a call that its grammar has written: the last brace is that of the call. */
function callOf(json: string): ToolCall {
  const [, name = '', written = ''] = BEGUN.exec(json) ?? [];
  const given = written.trimEnd().slice(0, -1);
  JSON.parse(given);
  return { name: JSON.parse(name) as string, arguments: compactJson(given) };
}
