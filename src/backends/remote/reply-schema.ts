/**
 * JSON Schemas for servers: what every vendor takes of one is sent, and each reply is checked
 * against the whole. A server may ignore a form without a word (ggml-org/llama.cpp#19051).
 */
import { Ajv2020 } from 'ajv/dist/2020.js';
import { IsoproError } from '../../errors.js';
import { tooMuch } from '../../json-shape.js';

/** Keywords that a vendor refuses or that change nothing in what a model writes. */
const LEFT_OUT = new Set([
  ...['$schema', '$id', '$comment', 'default', 'examples', 'format', 'pattern'],
  ...['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'multipleOf'],
  ...['minLength', 'maxLength', 'minItems', 'maxItems', 'uniqueItems'],
  ...['minProperties', 'maxProperties', 'propertyNames', 'patternProperties'],
]);
/** Keywords whose members are names of the user's, not keywords. */
const NAMED = new Set(['properties', '$defs', 'definitions']);
const LITERAL = new Set(['const', 'enum', 'required']);

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

function sent(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(sent);
  if (!isObject(schema)) return schema;
  const kept = Object.entries(schema).flatMap(([keyword, value]): [string, unknown][] => {
    if (LEFT_OUT.has(keyword)) return [];
    if (LITERAL.has(keyword)) return [[keyword, value]];
    if (NAMED.has(keyword) && isObject(value))
      return [
        [keyword, Object.fromEntries(Object.entries(value).map(([name, of]) => [name, sent(of)]))],
      ];
    return [[keyword, sent(value)]];
  });
  const form = Object.fromEntries(kept);
  // OpenAI and Anthropic ask for it, and a reply without further members follows the whole schema
  return 'properties' in form && !('additionalProperties' in form)
    ? { ...form, additionalProperties: false }
    : form;
}

/** OpenAI's strict form: every object states all of its members as required, and has no others. */
function isStrict(schema: unknown): boolean {
  if (Array.isArray(schema)) return schema.every(isStrict);
  if (!isObject(schema)) return true;
  const { properties, required, additionalProperties } = schema;
  const isOpen = isObject(properties)
    ? additionalProperties !== false ||
      !Object.keys(properties).every((name) => Array.isArray(required) && required.includes(name))
    : schema.type === 'object';
  return !isOpen && Object.values(schema).every(isStrict);
}

export interface ReplySchema {
  /** What is sent of it. */
  readonly sent: object;
  readonly isStrict: boolean;
  /** Says how a reply breaks the whole schema; null: it does not. */
  objection(text: string): string | null;
}

/** @throws IsoproError GRAMMAR_INVALID */
export function replySchema(schema: object): ReplySchema {
  const ajv = new Ajv2020({ strict: false, validateFormats: false, logger: false });
  const valid = (() => {
    try {
      return ajv.compile(schema);
    } catch (cause) {
      throw new IsoproError(
        'GRAMMAR_INVALID',
        `the JSON Schema is not valid: ${(cause as Error).message}`,
        {
          cause,
        },
      );
    }
  })();
  const form = sent(schema) as object;
  return {
    sent: form,
    isStrict: isStrict(form),
    objection(text) {
      const excess = tooMuch(text);
      if (excess !== null) return `the reply ${excess}`;
      let value: unknown;
      try {
        value = JSON.parse(text);
      } catch {
        return 'the reply is not JSON, although a JSON Schema was asked for';
      }
      return valid(value)
        ? null
        : `the reply breaks the JSON Schema: ${ajv.errorsText(valid.errors, { dataVar: 'reply' })}`;
    },
  };
}
