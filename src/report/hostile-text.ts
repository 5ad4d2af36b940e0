/** Text from a log is a stranger's: a model wrote it, or a task, or whoever made the folder. */

const CONTROL = /[\u0000-\u0008\u000b-\u001f\u007f]/g;
// direction marks, overrides and isolates, zero-width characters, line separators, tags, C1 controls
const INVISIBLE = /[\u0080-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\u{e0000}-\u{e007f}]/gu;

/**
 * The same text with everything that would steer a terminal, a browser or the direction of reading made visible. Tab and line feed stay.
 */
export function visible(text: string): string {
  return text
    .toWellFormed()
    .replace(/\r\n/g, '\n')
    .replace(CONTROL, (character) => (character === '\u007f' ? '\u2421' : String.fromCharCode(0x2400 + character.charCodeAt(0))))
    .replace(INVISIBLE, (character) => `[U+${character.codePointAt(0)!.toString(16).toUpperCase().padStart(4, '0')}]`);
}

/** On one line, at most `length` characters. */
export function label(text: string, length = 40): string {
  const characters = [
    ...visible(text.slice(0, 4 * length))
      .replace(/\s+/g, ' ')
      .trim(),
  ];
  return characters.length > length ? `${characters.slice(0, length - 1).join('')}…` : characters.join('');
}

const ENTITIES: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' };

/** For the content of an element or a quoted attribute. */
export const escapeHtml = (text: string): string => visible(text).replace(/[&<>"']/g, (character) => ENTITIES[character]!);

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
