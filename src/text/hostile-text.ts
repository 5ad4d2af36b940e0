/** Untrusted text: a model, a task, or the creator of a folder wrote what is in a log. */
import { visible } from '../visible-text.js';

/** Text on one line, of at most `length` characters. */
export function label(text: string, length = 40): string {
  const characters = [
    ...visible(text.slice(0, 4 * length))
      .replace(/\s+/g, ' ')
      .trim(),
  ];
  return characters.length > length
    ? `${characters.slice(0, length - 1).join('')}…`
    : characters.join('');
}

const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

/** Escapes text for the content of an element or a quoted attribute. */
export const escapeHtml = (text: string): string =>
  visible(text).replace(/[&<>"']/g, (character) => ENTITIES[character]!);

/** Markup that needs no escaping any more. */
export class Html {
  constructor(readonly text: string) {}
}

export type HtmlValue = Html | string | number | null | undefined | false | readonly HtmlValue[];

const rendered = (value: HtmlValue): string => {
  if (value === null || value === undefined || value === false) return '';
  if (value instanceof Html) return value.text;
  return typeof value === 'object' ? value.map(rendered).join('') : escapeHtml(String(value));
};

/** Markup in which every value that is not markup itself is escaped. */
export const html = (strings: TemplateStringsArray, ...values: readonly HtmlValue[]): Html =>
  new Html(strings.reduce((text, part, i) => text + rendered(values[i - 1]) + part));
