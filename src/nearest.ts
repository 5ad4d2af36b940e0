/** Suggestions for a word that is not among the known ones. */

/**
 * Letters put in, left out, changed, or two neighbours exchanged (optimal string alignment, after
 * Damerau 1964).
 */
function distance(a: string, b: string): number {
  const rows: number[][] = [Array.from({ length: b.length + 1 }, (_, j) => j)];
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1];
      let least = Math.min(
        rows[i - 1]![j]! + 1,
        row[j - 1]! + 1,
        rows[i - 1]![j - 1]! + (same ? 0 : 1),
      );
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1])
        least = Math.min(least, rows[i - 2]![j - 2]! + 1);
      row.push(least);
    }
    rows.push(row);
  }
  return rows[a.length]![b.length]!;
}

const LONGEST = 40;

/**
 * Returns the nearest candidate; null if more than a third of the letters differ and no candidate
 * starts with the word.
 */
export function nearest(word: string, candidates: Iterable<string>): string | null {
  if (word.length > LONGEST) return null;
  let best: { readonly candidate: string; readonly away: number } | null = null;
  for (const candidate of candidates) {
    const begins = word.length >= 3 && candidate.startsWith(word);
    // of two that are as near, the one of as many letters: exchanged letters are the commoner slip
    const length = word.startsWith(candidate)
      ? 0
      : Math.min(0.4, Math.abs(word.length - candidate.length) / 10);
    const away = begins ? 0.5 : distance(word.toLowerCase(), candidate.toLowerCase()) + length;
    if (
      Math.floor(away) <= Math.max(1, Math.ceil(word.length / 3)) &&
      (best === null || away < best.away)
    )
      best = { candidate, away };
  }
  return best?.candidate ?? null;
}

/** Returns the end of a sentence that rejects a word; empty if no candidate is near. */
export function didYouMean(word: string, candidates: Iterable<string>): string {
  const found = nearest(word, candidates);
  return found === null ? '' : `; did you mean ${found}?`;
}
