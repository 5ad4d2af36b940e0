/** What texts have in common. */
import type { TokenIds } from './generate-request.js';

/** With how many token ids all of them begin. */
export function commonBeginning([first = [], ...others]: readonly TokenIds[]): number {
  let length = 0;
  while (
    length < first.length &&
    others.every((each) => length < each.length && each[length] === first[length])
  )
    length++;
  return length;
}
