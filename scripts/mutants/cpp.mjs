/** Mutants of C++: places for each operator, found in the text as clang-format writes it. */

const COMPARISONS = { '<': '<=', '<=': '<', '>': '>=', '>=': '>', '==': '!=', '!=': '==' };
const SIGNS = { '+': '-', '-': '+', '+=': '-=', '-=': '+=', '++': '--', '--': '++' };
/**
 * The value of `min` and `max` does not depend on the order of their arguments: swapped ones are
 * the same program.
 */
const UNORDERED = new Set(['min', 'max', 'hypot']);
const NO_CALL = new Set([
  'if',
  'while',
  'for',
  'switch',
  'catch',
  'sizeof',
  'decltype',
  'alignof',
  'noexcept',
  'return',
]);
/**
 * A type and a name, a value that is returned, or a word that belongs to no statement: what no
 * compiler misses without a word.
 */
const NEEDED =
  /^(?!throw\b)(?:[\w:]+(?:<.*>)?[&*]*\s+[\w[]|(?:public|private|protected|default)\b)/s;
/** A parameter: a type and a name. */
const PARAMETER = /[\w>&*]\s+[&*]*\w+(?:\s*=.*)?$/s;

/**
 * The text with blanks for comments and lines of the preprocessor, and strings of nothing but
 * quotes.
 */
function codeOf(text) {
  const noise =
    /\/\/[^\n]*|\/\*[^]*?\*\/|"(?:[^"\\\n]|\\.)*"|(?<!\w)'(?:[^'\\\n]|\\.)+'|^[ \t]*#(?:\\\n|[^\n])*/gm;
  return text.replace(noise, (found) => found.replace(/[^\n]/g, /^["']/.test(found) ? '"' : ' '));
}

/** Where the parenthesis is closed that is opened there, and where it is divided by a character. */
function enclosed(code, open, divider) {
  const dividers = [];
  let depth = 0;
  for (let at = open; at < code.length; at++) {
    if ('([{'.includes(code[at])) depth++;
    else if (')]}'.includes(code[at]) && --depth === 0) return { close: at, dividers };
    else if (depth === 1 && code[at] === divider) dividers.push(at);
  }
  return null;
}

/** A stretch without the blanks around it. */
function trimmed(code, start, end) {
  while (start < end && /\s/.test(code[start])) start++;
  while (end > start && /\s/.test(code[end - 1])) end--;
  return [start, end];
}

/** As those of TypeScript. */
export function placesOf(text) {
  const code = codeOf(text);
  const places = [];
  const add = (operator, start, end, after) =>
    places.push({ operator, at: start, start, end, after });
  const each = (expression, found) => {
    for (const match of code.matchAll(expression)) found(match, match.index);
  };
  each(/(?<= )(?:[<>]=?|[=!]=)(?= )/g, ([found], at) =>
    add('comparison', at, at + found.length, COMPARISONS[found]),
  );
  each(/(?<= )[+-]=?(?= )|\+\+|--/g, ([found], at) =>
    add('sign', at, at + found.length, SIGNS[found]),
  );
  each(/(?<=[=(,?:] ?|return )-(?=[\w(])/g, (_, at) => add('sign', at, at + 1, ''));
  each(/(?<![\w.'])\d+(?:\.\d*)?(?:e[+-]?\d+)?[fuUlL]*(?![\w.'])/g, ([found], at) => {
    for (const by of ['+', '-']) add('constant', at, at + found.length, `(${found} ${by} 1)`);
  });
  each(/\b(if|while|for) \(/g, ([found, word], at) => {
    const inside = enclosed(code, at + found.length - 1, ';');
    if (inside === null || inside.dividers.length !== (word === 'for' ? 2 : 0)) return;
    const [first, last] = word === 'for' ? inside.dividers : [at + found.length - 1, inside.close];
    const [start, end] = trimmed(code, first + 1, last);
    if (start < end) add('condition negated', start, end, `!(${text.slice(start, end)})`);
  });
  const ofLoops = new Set();
  each(/\bfor \(/g, ([found], at) => {
    for (const divider of enclosed(code, at + found.length - 1, ';')?.dividers ?? [])
      ofLoops.add(divider);
  });
  each(/(?<=[;{}])[^;{}]*;/g, ([found], at) => {
    if (ofLoops.has(at + found.length - 1) || ofLoops.has(at - 1)) return;
    const [start, end] = trimmed(code, at, at + found.length);
    const open = found.split('(').length - found.split(')').length;
    if (end - start > 1 && open === 0 && !NEEDED.test(code.slice(start, end)))
      add('statement removed', start, end, ';');
  });
  each(/\b([A-Za-z_]\w*)\(/g, ([found, name], at) => {
    const inside =
      NO_CALL.has(name) || UNORDERED.has(name) ? null : enclosed(code, at + found.length - 1, ',');
    if (inside === null) return;
    const ends = [at + found.length - 1, ...inside.dividers, inside.close];
    const given = ends.slice(1).map((end, i) => trimmed(code, ends[i] + 1, end));
    if (given.some(([start, end]) => PARAMETER.test(code.slice(start, end)))) return;
    for (const [i, [start, end]] of given.entries()) {
      if (i === 0) continue;
      const [before, until] = given[i - 1];
      const [first, second] = [text.slice(before, until), text.slice(start, end)];
      if (first !== second)
        add('argument swapped', before, end, `${second}${text.slice(until, start)}${first}`);
    }
  });
  return places;
}
