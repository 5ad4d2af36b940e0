/**
 * How deep a text of JSON is and how many parts it has, before it is parsed: parsers call
 * themselves, and parts cost memory.
 */

/** Deeper than any request, and far from what parsers that call themselves can bear. */
const DEEPEST = 128;

/**
 * Objects, lists and members of objects: more of them than any request has would hold up everybody.
 * Numbers and texts cost little.
 */
const MOST_PLACES = 2 ** 18;

/**
 * How deep brackets outside of strings are nested, and how many there are with the members of
 * objects; as far as one is too much.
 */
function shapeOf(text: string): { readonly depth: number; readonly places: number } {
  let [depth, deepest, places] = [0, 0, 0];
  for (let i = 0; i < text.length && deepest <= DEEPEST && places <= MOST_PLACES; i++) {
    const c = text.charCodeAt(i);
    if (c === 0x22)
      for (i++; i < text.length && text.charCodeAt(i) !== 0x22; i++)
        i += text.charCodeAt(i) === 0x5c ? 1 : 0;
    else if (c === 0x3a) places++;
    else if (c === 0x5b || c === 0x7b) {
      places++;
      if (++depth > deepest) deepest = depth;
    } else if (c === 0x5d || c === 0x7d) depth--;
  }
  return { depth: deepest, places };
}

/** Of a text inside a body that is read as JSON: what is wrong with its shape; null: nothing. */
export function tooMuch(text: string): string | null {
  const { depth, places } = shapeOf(text);
  if (depth > DEEPEST) return `is nested more than ${DEEPEST} levels deep`;
  return places > MOST_PLACES ? `has more than ${MOST_PLACES} objects, lists and members` : null;
}
