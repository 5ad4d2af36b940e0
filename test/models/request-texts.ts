/** Settings of a job that are text: whatever a request writes goes into them. */
import type { Field } from '../../src/operations/flags.js';

export interface Text {
  /** `sampling.system` */
  readonly at: string;
  readonly isList: boolean;
  readonly field: Field & { readonly maxLength?: number; readonly pattern?: string };
}

/** Every text member of a schema, also of its parts and lists. */
export function textsOf(field: Field, at = '', isList = false): Text[] {
  if (field.properties !== undefined)
    return Object.entries(field.properties).flatMap(([name, of]) =>
      textsOf(of, at === '' ? name : `${at}.${name}`),
    );
  if (field.type === 'array' && field.items !== undefined)
    return textsOf({ ...field.items, ...(field.names && { names: field.names }) }, at, true);
  return field.type === 'string' && field.enum === undefined ? [{ at, isList, field }] : [];
}

/**
 * Texts that are neither names, nor of few values, nor of a pattern: they are compared, shown or
 * put before a prompt, and nothing is opened by them.
 */
export const FREE: ReadonlySet<string> = new Set([
  'system', // before every prompt
  'sampling.system',
  'stop', // ends a reply
  'sampling.stop',
  'reason', // kept in the registry's log
  'instruction', // what a judge is asked
  'by', // names of strategies, readers and features
  'strategy',
  'reader',
  'features',
  'randomised',
  'group',
  'trajectory',
  'mode',
  'eval',
  'as', // SCENARIO@ALIAS
  'transaction', // compared with those of before
]);

/** `{ sampling: { system: value } }` for `sampling.system`, within the settings that are given. */
export function withText(settings: object, { at, isList }: Text, value: string): object {
  const [part, member] = at.split('.') as [string, string | undefined];
  const text = isList ? [value] : value;
  const whole = settings as Readonly<Record<string, object>>;
  return {
    ...settings,
    [part]: member === undefined ? text : { ...whole[part], [member]: text },
  };
}
