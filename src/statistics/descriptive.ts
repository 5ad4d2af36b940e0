/** NaN for no values. */
export const mean = (values: readonly number[]): number =>
  values.reduce((sum, value) => sum + value, 0) / values.length;

/** Square root of the sum of squares about the mean over n - 1; NaN for fewer than two values. */
export function sampleStandardDeviation(values: readonly number[]): number {
  if (values.length < 2) return NaN;
  const centre = mean(values);
  return Math.sqrt(
    values.reduce((sum, value) => sum + (value - centre) ** 2, 0) / (values.length - 1),
  );
}

/** Pearson's correlation; NaN where a side is constant. */
export function pearson(x: readonly number[], y: readonly number[]): number {
  requirePairs(x, y);
  const [mx, my] = [mean(x), mean(y)];
  let [sxy, sxx, syy] = [0, 0, 0];
  for (let i = 0; i < x.length; i++) {
    const [dx, dy] = [x[i]! - mx, y[i]! - my];
    sxy += dx * dy;
    sxx += dx * dx;
    syy += dy * dy;
  }
  return sxy / Math.sqrt(sxx * syy);
}

/** Spearman's rank correlation; ties share their mean rank. */
export const spearman = (x: readonly number[], y: readonly number[]): number =>
  pearson(ranks(x), ranks(y));

/** Kendall's tau-b, which corrects for ties. */
export function kendall(x: readonly number[], y: readonly number[]): number {
  requirePairs(x, y);
  let [score, untiedX, untiedY] = [0, 0, 0];
  for (let i = 0; i < x.length; i++) {
    for (let j = 0; j < i; j++) {
      const [dx, dy] = [Math.sign(x[i]! - x[j]!), Math.sign(y[i]! - y[j]!)];
      score += dx * dy;
      untiedX += Math.abs(dx);
      untiedY += Math.abs(dy);
    }
  }
  return score / Math.sqrt(untiedX * untiedY);
}

function ranks(values: readonly number[]): number[] {
  return values.map((value) => {
    const below = values.filter((other) => other < value).length;
    const equal = values.filter((other) => other === value).length;
    return below + (equal + 1) / 2;
  });
}

function requirePairs(x: readonly number[], y: readonly number[]): void {
  if (x.length !== y.length)
    throw new RangeError(`needs as many x as y, got ${x.length} and ${y.length}`);
}
