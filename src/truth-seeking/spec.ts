/**
 * A name with options as one string, `self-debate:turns=4`, that parses back: it names a mode or a
 * strategy in flags and in records.
 */
import { z } from 'zod';
import { IsoproError } from '../errors.js';

type Forms = Readonly<Record<string, z.ZodObject>>;

/** A name with the options of its form. */
export type Spec<F extends Forms> = {
  readonly [N in keyof F & string]: { readonly name: N } & Readonly<z.output<F[N]>>;
}[keyof F & string];

export interface Specs<F extends Forms> {
  readonly names: readonly (keyof F & string)[];
  readonly forms: F;
  /** Options that are left out have their default. @throws IsoproError INVALID_ARGUMENT */
  parse(text: string): Spec<F>;
  /** Formats a spec with every option, so that it stays the same when a default changes. */
  format(spec: Spec<F>): string;
}

/** In lists. */
const AND = '+';

/** Possible readings of a text: itself, a number, yes or no, a list. */
const readings = (text: string): unknown[] => [
  text,
  ...(/^-?\d+(\.\d+)?$/.test(text) ? [Number(text)] : []),
  ...(text === 'true' || text === 'false' ? [text === 'true'] : []),
  text === '' ? [] : text.split(AND),
];

/** @param what that is named, for errors */
export function specs<F extends Forms>(what: string, forms: F): Specs<F> {
  const names = Object.keys(forms) as (keyof F & string)[];
  const refuse = (text: string, why: string): never => {
    throw new IsoproError('INVALID_ARGUMENT', `${what} ${JSON.stringify(text)}: ${why}`);
  };
  return {
    names,
    forms,
    parse(text) {
      const [name = '', ...rest] = text.split(':');
      const form = Object.hasOwn(forms, name) ? forms[name] : undefined;
      if (form === undefined) return refuse(text, `unknown name; expected ${names.join(', ')}`);
      const options = new Map<string, unknown>();
      for (const pair of rest.join(':') === '' ? [] : rest.join(':').split(',')) {
        const [, key, value] =
          /^([^=]*)=(.*)$/s.exec(pair) ??
          refuse(text, `write an option as KEY=VALUE, not ${JSON.stringify(pair)}`);
        const member = Object.hasOwn(form.shape, key!)
          ? (form.shape[key!] as z.ZodType)
          : undefined;
        if (member === undefined)
          return refuse(
            text,
            `unknown option ${JSON.stringify(key)}; expected ${Object.keys(form.shape).join(', ') || 'none'}`,
          );
        if (options.has(key!)) return refuse(text, `${key} is given twice`);
        const read = readings(value!).find((each) => member.safeParse(each).success);
        options.set(key!, read ?? value);
      }
      const parsed = form.safeParse(Object.fromEntries(options));
      return parsed.success
        ? ({ name, ...parsed.data } as Spec<F>)
        : refuse(text, z.prettifyError(parsed.error).replace(/\s*\n\s*/g, ' '));
    },
    format({ name, ...options }) {
      const written = Object.keys(forms[name]!.shape).flatMap((key) => {
        const value = (options as Readonly<Record<string, unknown>>)[key];
        return value === undefined
          ? []
          : [`${key}=${Array.isArray(value) ? value.join(AND) : String(value)}`];
      });
      return written.length === 0 ? name : `${name}:${written.join(',')}`;
    },
  };
}
