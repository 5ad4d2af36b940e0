/** Messages for wrong usage that suggest the nearest valid word. */
import type { Argv } from 'yargs';
import { label } from '../text/hostile-text.js';
import { nearest } from '../nearest.js';

/** Undeclared internals of yargs 18 about the current command. */
interface Inner {
  getOptions?(): { readonly key?: object };
  getInternalMethods?(): {
    getCommandInstance?(): { getCommands?(): string[] };
    getContext?(): { fullCommands?: string[] };
  };
}

// not that of operations/flags: with it every command would import zod
const dashed = (name: string): string =>
  name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
const meant = (found: string | null, as: (name: string) => string): string =>
  found === null ? '' : `; did you mean ${as(found)}?`;

/** @param words as they were typed after the program's name */
export function misuseText(message: string, parser: Argv, words: readonly string[]): string {
  const inner = parser as Inner;
  const flags = Object.keys(inner.getOptions?.().key ?? {}).filter(
    (name) => name.length > 1 && name === dashed(name),
  );
  const noOption = (name: string): string => {
    // yargs takes it for the opposite of `name`
    const typed = words.includes(`--no-${name}`) ? `no-${name}` : name;
    return `There is no option --${label(typed)}${meant(nearest(name, flags), (found) => `--${found}`)}`;
  };
  const [first = ''] = words;
  if (message.startsWith('Name ') && first.startsWith('--'))
    return noOption(first.slice(2).replace(/=.*$/s, ''));
  const { fullCommands = [] } = inner.getInternalMethods?.().getContext?.() ?? {};
  if (message.startsWith('Not enough non-option arguments') && fullCommands.length > 0)
    return `An argument is missing: isopro-native ${fullCommands.join(' ')}`;
  const unknown = /^Unknown (?:argument|command)s?: (.*)$/s.exec(message)?.[1];
  if (unknown !== undefined) {
    const names = [
      ...new Set(unknown.split(', ').map((name) => (words.includes(name) ? name : dashed(name)))),
    ];
    const commands = inner.getInternalMethods?.().getCommandInstance?.().getCommands?.() ?? [];
    const options = names.filter((name) => !words.includes(name));
    // a sentence with commas is one word to the shell, and several to who reads the list
    const word =
      words.find((each) => each.includes(', ') && unknown.includes(each)) ??
      (commands.length > 0 && fullCommands.length === 0 && names.includes(first)
        ? first
        : names.find((name) => words.includes(name)));
    // of a command that is none, no option is known either
    if (word === undefined || (commands.length === 0 && options.length > 0 && !word.includes(', ')))
      return options.map(noOption).join('\n');
    const prompted =
      commands.length > 0
        ? ''
        : flags.includes('task') && /\.(?:(?:csv|jsonl|ndjson)(?:\.gz)?|ts|js|mjs)$/i.test(word)
          ? `; did you mean --task ${label(word)}?`
          : flags.includes('prompt')
            ? '; give a prompt as --prompt TEXT'
            : fullCommands.includes('chat')
              ? '; it asks line by line, and `generate --prompt TEXT` answers one question'
              : '';
    return (
      `There is no ${commands.length > 0 ? 'command' : 'argument'} ${label(word)}` +
      `${meant(nearest(word, commands), (found) => found)}${prompted}`
    );
  }
  return withNearest(message);
}

const withNearest = (message: string): string => {
  const choice = /Argument: ([^,\n]+), Given: "([^"\n]*)", Choices: ([^\n]*)/g;
  return message.replace(choice, (line: string, _: string, given: string, choices: string) => {
    const all = [...choices.matchAll(/"([^"]*)"/g)].map(([, one]) => one!);
    return `${line}${meant(nearest(given, all), (found) => found)}`;
  });
};

/**
 * Message for a value that is not a number, with the text that was typed, since yargs only keeps
 * NaN. Null if there is none.
 * @param words as they were typed
 */
export function wrongNumber(
  argv: Readonly<Record<string, unknown>>,
  words: readonly string[],
): string | null {
  const [name] =
    Object.entries(argv).find(([, value]) => [value].flat().some((each) => Number.isNaN(each))) ??
    [];
  if (name === undefined) return null;
  const flag = `--${dashed(name)}`;
  const given = words.flatMap((word, i) =>
    word === flag
      ? (words[i + 1] ?? [])
      : word.startsWith(`${flag}=`)
        ? word.slice(flag.length + 1)
        : [],
  );
  const typed = given.find((word) => Number.isNaN(Number(word)));
  return `${flag} takes a number${typed === undefined ? '' : `, not ${label(typed)}`}`;
}
