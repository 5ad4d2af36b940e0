/** Curves over steps as lines of text, for a terminal. */

export interface Curve {
  /** Character of the curve. */
  readonly mark: string;
  readonly name: string;
  readonly points: readonly { readonly step: number; readonly loss: number }[];
}

/**
 * Losses over steps; what falls into one column is averaged, and later curves lie over earlier
 * ones. Empty where there are no two points to draw.
 * @param width columns in all
 * @param height lines of the drawing, without its axis
 */
export function lossCurve(curves: readonly Curve[], width = 72, height = 10): string[] {
  const points = curves.flatMap((curve) => curve.points);
  const [low, high] = [
    Math.min(...points.map(({ loss }) => loss)),
    Math.max(...points.map(({ loss }) => loss)),
  ];
  const steps = Math.max(...points.map(({ step }) => step));
  if (points.length < 2 || !Number.isFinite(high - low)) return [];
  const label = (loss: number): string => loss.toFixed(3).padStart(8);
  const columns = Math.max(10, width - 11);
  const rows = Array.from({ length: height }, () => Array<string>(columns).fill(' '));
  for (const { mark, points: own } of curves) {
    const sums = new Map<number, { sum: number; count: number }>();
    for (const { step, loss } of own) {
      const column = Math.round(((columns - 1) * step) / Math.max(1, steps));
      const { sum, count } = sums.get(column) ?? { sum: 0, count: 0 };
      sums.set(column, { sum: sum + loss, count: count + 1 });
    }
    for (const [column, { sum, count }] of sums) {
      const share = high === low ? 0 : (sum / count - low) / (high - low);
      rows[Math.round((height - 1) * (1 - share))]![column] = mark;
    }
  }
  const last = `step ${steps}`;
  return [
    ...rows.map(
      (row, i) =>
        `${i === 0 ? label(high) : i === height - 1 ? label(low) : ' '.repeat(8)} |${row.join('').trimEnd()}`,
    ),
    `${' '.repeat(9)}+${'-'.repeat(columns)}`,
    `${' '.repeat(10)}${'0'.padEnd(columns - last.length)}${last}`,
    `${' '.repeat(10)}${curves.map(({ mark, name }) => `${mark} ${name}`).join('   ')}`,
  ];
}
