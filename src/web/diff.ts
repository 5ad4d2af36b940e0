/** What changed between two texts, word by word. */

export interface Piece {
  readonly kind: 'same' | 'removed' | 'added';
  readonly text: string;
}

/**
 * Beyond so many words the middle is shown as replaced as a whole: the table below has a cell for
 * each pair of them.
 */
const MOST = 3000;

const words = (text: string): string[] => text.match(/\s+|[\p{L}\p{N}_]+|[^\s\p{L}\p{N}_]/gu) ?? [];

/** A longest common subsequence of words; equal beginnings and ends are taken off first. */
export function diffWords(before: string, after: string): Piece[] {
  const [a, b] = [words(before), words(after)];
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head++;
  let tail = 0;
  while (tail < a.length - head && tail < b.length - head && a.at(-1 - tail) === b.at(-1 - tail))
    tail++;
  const [was, is] = [a.slice(head, a.length - tail), b.slice(head, b.length - tail)];
  const pieces: Piece[] = [];
  const put = (kind: Piece['kind'], text: string): void => {
    if (text === '') return;
    const last = pieces.at(-1);
    if (last?.kind === kind) pieces[pieces.length - 1] = { kind, text: last.text + text };
    else pieces.push({ kind, text });
  };
  put('same', a.slice(0, head).join(''));
  if (was.length > MOST || is.length > MOST) {
    put('removed', was.join(''));
    put('added', is.join(''));
  } else {
    const width = is.length + 1;
    const common = new Uint16Array((was.length + 1) * width);
    for (let i = was.length - 1; i >= 0; i--)
      for (let j = is.length - 1; j >= 0; j--)
        common[i * width + j] =
          was[i] === is[j]
            ? common[(i + 1) * width + j + 1]! + 1
            : Math.max(common[(i + 1) * width + j]!, common[i * width + j + 1]!);
    let [i, j] = [0, 0];
    while (i < was.length || j < is.length) {
      if (i < was.length && j < is.length && was[i] === is[j]) {
        put('same', was[i++]!);
        j++;
      } else if (
        j === is.length ||
        (i < was.length && common[(i + 1) * width + j]! >= common[i * width + j + 1]!)
      )
        put('removed', was[i++]!);
      else put('added', is[j++]!);
    }
  }
  put('same', a.slice(a.length - tail).join(''));
  return pieces;
}
