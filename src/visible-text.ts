/** Text from outside on a screen or a page. */

// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is made visible
const CONTROL = /[\u0000-\u0008\u000b-\u001f\u007f]/g;
// direction marks, overrides and isolates, zero-width characters, line separators, tags, C1
// controls
const INVISIBLE =
  /[\u0080-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\u{e0000}-\u{e007f}]/gu;

/**
 * Returns the text with all characters visible that would control a terminal, a browser or the
 * direction of reading. Tab and line feed stay.
 */
export function visible(text: string): string {
  return text
    .toWellFormed()
    .replace(/\r\n/g, '\n')
    .replace(CONTROL, (character) =>
      character === '\u007f' ? '\u2421' : String.fromCharCode(0x2400 + character.charCodeAt(0)),
    )
    .replace(
      INVISIBLE,
      (character) => `[U+${character.codePointAt(0)!.toString(16).toUpperCase().padStart(4, '0')}]`,
    );
}
