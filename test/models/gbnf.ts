/** A GBNF grammar read the simple way: by trying all ways to go on from each place of a text. */

type Part =
  | { readonly rule: string }
  | { readonly set: RegExp }
  | { readonly text: string }
  | { readonly group: Part[][]; least: number; most: number };

const ITEM =
  /\s*(?:"((?:[^"\\]|\\.)*)"|\[((?:[^\]\\]|\\.)*)\]|([\w-]+)|(\()|(\))|(\|))(\*|\+|\?|\{\d+(?:,\d*)?\})?/y;
const unescaped = (text: string): string =>
  text.replace(
    /\\(?:U([0-9a-f]{8})|x([0-9A-F]{2})|(.))/g,
    (_, wide: string, narrow: string, c: string) =>
      c === undefined
        ? String.fromCodePoint(parseInt(wide ?? narrow, 16))
        : c === 'n'
          ? '\n'
          : c === 't'
            ? '\t'
            : c,
  );
const setOf = (text: string): RegExp =>
  new RegExp(
    `^[${text
      .replace(/\\U([0-9a-f]{8})/g, (_, hex: string) => `\\u{${hex}}`)
      .replace(/\\(["[\]])/g, (_, c: string) => (c === '"' ? c : `\\${c}`))}]$`,
    'u',
  );

function times(repeat: string | undefined): [least: number, most: number] {
  if (repeat === undefined) return [1, 1];
  if (repeat === '*') return [0, Infinity];
  if (repeat === '+') return [1, Infinity];
  if (repeat === '?') return [0, 1];
  const [, least, comma, most] = /\{(\d+)(,?)(\d*)\}/.exec(repeat)!;
  return [Number(least), comma === '' ? Number(least) : most === '' ? Infinity : Number(most)];
}

function parsed(body: string): Part[][] {
  let at = 0;
  const alternatives = (): Part[][] => {
    const all: Part[][] = [[]];
    for (;;) {
      ITEM.lastIndex = at;
      const found = ITEM.exec(body);
      if (found === null) return all;
      const [, text, set, rule, open, close, bar, repeat] = found;
      at = ITEM.lastIndex;
      if (close !== undefined) {
        closing = repeat;
        return all;
      }
      if (bar !== undefined) {
        all.push([]);
        continue;
      }
      const part: Part | Part[][] =
        open !== undefined
          ? alternatives()
          : text !== undefined
            ? { text: unescaped(text) }
            : set !== undefined
              ? { set: setOf(set) }
              : { rule: rule! };
      const [least, most] = times(open === undefined ? repeat : closing);
      const group = Array.isArray(part) ? part : [[part]];
      all.at(-1)!.push({ group, least, most });
    }
  };
  let closing: string | undefined;
  return alternatives();
}

/** Whether the grammar allows a text. */
export function allowedBy(gbnf: string): (text: string) => boolean {
  const rules = new Map(
    gbnf
      .split('\n')
      .filter((line) => line.includes('::='))
      .map((line) => {
        const [name, ...body] = line.split(' ::= ');
        return [name!.trim(), parsed(body.join(' ::= '))] as const;
      }),
  );
  return (text) => {
    const known = new Map<string, Set<number>>();
    const ofRule = (rule: string, at: number): Set<number> => {
      const key = `${rule} ${at}`;
      let ends = known.get(key);
      if (ends === undefined) {
        known.set(key, new Set()); // no rule here begins with itself
        known.set(key, (ends = ofGroup(rules.get(rule)!, at)));
      }
      return ends;
    };
    const ofGroup = (group: Part[][], at: number): Set<number> => {
      const ends = new Set<number>();
      for (const sequence of group) {
        let places = new Set([at]);
        for (const part of sequence)
          places = new Set([...places].flatMap((place) => [...ofPart(part, place)]));
        for (const place of places) ends.add(place);
      }
      return ends;
    };
    const ofPart = (part: Part, at: number): Set<number> => {
      if ('rule' in part) return ofRule(part.rule, at);
      if ('text' in part)
        return new Set(text.startsWith(part.text, at) ? [at + part.text.length] : []);
      if ('set' in part) {
        const c = at < text.length ? String.fromCodePoint(text.codePointAt(at)!) : '';
        return new Set(c !== '' && part.set.test(c) ? [at + c.length] : []);
      }
      const ends = new Set<number>(part.least === 0 ? [at] : []);
      let places = new Set([at]);
      for (let count = 1; count <= part.most && places.size > 0; count++) {
        const next = new Set([...places].flatMap((place) => [...ofGroup(part.group, place)]));
        places = count > part.least ? new Set([...next].filter((place) => !ends.has(place))) : next;
        if (count >= part.least) for (const place of places) ends.add(place);
      }
      return ends;
    };
    return ofRule('root', 0).has(text.length);
  };
}
