const isBlank = (code: number): boolean => code === 32 || code === 9 || code === 10 || code === 13;

/**
 * Without the spaces, tabs and line ends around it; what cannot be seen otherwise, such as a mark
 * of byte order, stays. In linear time.
 */
export function trimBlanks(text: string): string {
  let [start, end] = [0, text.length];
  while (start < end && isBlank(text.charCodeAt(start))) start++;
  while (start < end && isBlank(text.charCodeAt(end - 1))) end--;
  return text.slice(start, end);
}
