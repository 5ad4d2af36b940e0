/** Regression on several columns: least squares with errors in clusters, and the logistic one. */
import { Z95 } from './intervals.js';
import { normalTail, studentQuantile } from './student.js';
import { tested, type Tested } from './regression.js';

/** Below it, as a part of its own length, a column counts as a sum of those before it. */
const COLLINEAR = 1e-9;
const LOGISTIC_STEPS = 50;
const LOGISTIC_DONE = 1e-10;
/** Log-odds beyond which the two outcomes are apart, and the coefficients have no bound. */
const APART = 30;

type Matrix = readonly (readonly number[])[];

/**
 * Columns of a design that no sum of earlier ones makes, by their numbers (Gram-Schmidt, twice).
 */
export function independentColumns(columns: Matrix): number[] {
  const basis: number[][] = [];
  return columns.flatMap((column, index) => {
    const length = Math.hypot(...column);
    let rest = column.map((value) => value / length);
    for (let pass = 0; pass < 2; pass++)
      for (const direction of basis) {
        const along = rest.reduce((sum, value, i) => sum + value * direction[i]!, 0);
        rest = rest.map((value, i) => value - along * direction[i]!);
      }
    const left = Math.hypot(...rest);
    if (!(length > 0) || left < COLLINEAR) return [];
    basis.push(rest.map((value) => value / left));
    return [index];
  });
}

/** Inverse of a symmetric positive definite matrix (Gauss-Jordan without pivots). */
function inverse(matrix: Matrix): number[][] {
  const size = matrix.length;
  const rows = matrix.map((row, i) => [...row, ...row.map((_, j) => (i === j ? 1 : 0))]);
  for (let pivot = 0; pivot < size; pivot++) {
    const by = rows[pivot]![pivot]!;
    rows[pivot] = rows[pivot]!.map((value) => value / by);
    for (let other = 0; other < size; other++) {
      if (other === pivot) continue;
      const factor = rows[other]![pivot]!;
      rows[other] = rows[other]!.map((value, i) => value - factor * rows[pivot]![i]!);
    }
  }
  return rows.map((row) => row.slice(size));
}

const dot = (a: readonly number[], b: readonly number[]): number =>
  a.reduce((sum, value, i) => sum + value * b[i]!, 0);
const times = (matrix: Matrix, vector: readonly number[]): number[] =>
  matrix.map((row) => dot(row, vector));

/** X' W X. */
const gram = (columns: Matrix, weights?: readonly number[]): number[][] =>
  columns.map((a) =>
    columns.map((b) => a.reduce((sum, value, i) => sum + value * b[i]! * (weights?.[i] ?? 1), 0)),
  );

/** Columns of length 1, so that units do not decide on what is invertible. */
function scaled(columns: Matrix): { readonly columns: number[][]; readonly lengths: number[] } {
  const lengths = columns.map((column) => Math.hypot(...column));
  return {
    columns: columns.map((column, i) => column.map((value) => value / lengths[i]!)),
    lengths,
  };
}

/** X' residuals of each cluster. */
function clusterScores(
  columns: Matrix,
  residuals: readonly number[],
  clusters: readonly string[],
): number[][] {
  const scores = new Map<string, number[]>();
  for (const [i, cluster] of clusters.entries()) {
    const before = scores.get(cluster) ?? new Array<number>(columns.length).fill(0);
    scores.set(
      cluster,
      before.map((value, j) => value + columns[j]![i]! * residuals[i]!),
    );
  }
  return [...scores.values()];
}

export interface LeastSquares {
  readonly n: number;
  /** One a column, with errors that allow for clusters. */
  readonly coefficients: readonly Tested[];
  /** Part of the variance of y that the fit takes away; null where y does not vary. */
  readonly rSquared: number | null;
}

/**
 * y on columns, the intercept being one of them, with standard errors that hold where the errors of
 * one cluster depend on each other (Liang and Zeger 1986, factor G/(G - 1) x (n - 1)/(n - k), G - 1
 * degrees of freedom).
 * @param columns independent (see `independentColumns`), each as long as y
 * @returns null for fewer than two clusters, or no observation more than columns
 */
export function leastSquares(
  columns: Matrix,
  y: readonly number[],
  clusters: readonly string[],
): LeastSquares | null {
  const [n, k] = [y.length, columns.length];
  const { columns: x, lengths } = scaled(columns);
  if (n <= k || new Set(clusters).size < 2) return null;
  const bread = inverse(gram(x));
  const beta = times(bread, times(x, y));
  const residuals = y.map(
    (value, i) => value - x.reduce((sum, column, j) => sum + beta[j]! * column[i]!, 0),
  );
  const scores = clusterScores(x, residuals, clusters);
  const groups = scores.length;
  const factor = (groups / (groups - 1)) * ((n - 1) / (n - k));
  const moved = scores.map((score) => times(bread, score));
  const centre = y.reduce((sum, value) => sum + value, 0) / n;
  const total = y.reduce((sum, value) => sum + (value - centre) ** 2, 0);
  return {
    n,
    coefficients: beta.map((value, j) =>
      tested(
        value / lengths[j]!,
        Math.sqrt(factor * moved.reduce((sum, each) => sum + each[j]! ** 2, 0)) / lengths[j]!,
        groups - 1,
      ),
    ),
    rSquared: total === 0 ? null : 1 - dot(residuals, residuals) / total,
  };
}

export interface LogisticCoefficient {
  readonly value: number;
  readonly error: number;
  /** Half width of the 95 % interval. */
  readonly half: number;
  /** Two-sided, Wald. */
  readonly p: number;
}

export interface Logistic {
  readonly coefficients: readonly LogisticCoefficient[];
  /** -ln of the probability given to what came about, for each observation. */
  readonly losses: readonly number[];
}

/**
 * Log-odds of an outcome on columns, by iteratively reweighted least squares, with Wald errors;
 * where outcomes of one cluster may depend on each other with those that hold then (Liang and Zeger
 * 1986, factor G/(G - 1), G - 1 degrees of freedom).
 * @param columns independent, the intercept among them
 * @param clusters of each outcome
 * @returns null if the columns separate the outcomes,
 *   so that no likeliest coefficient exists, or for fewer than two clusters
 */
export function logisticRegression(
  columns: Matrix,
  outcomes: readonly boolean[],
  clusters: readonly string[],
): Logistic | null {
  const groups = new Set(clusters).size;
  if (groups < 2) return null;
  const { columns: x, lengths } = scaled(columns);
  let beta = new Array<number>(x.length).fill(0);
  for (let step = 0; step < LOGISTIC_STEPS; step++) {
    const odds = outcomes.map((_, i) =>
      x.reduce((sum, column, j) => sum + beta[j]! * column[i]!, 0),
    );
    if (odds.some((value) => !(Math.abs(value) < APART))) return null;
    const said = odds.map((value) => 1 / (1 + Math.exp(-value)));
    const covariance = inverse(
      gram(
        x,
        said.map((p) => p * (1 - p)),
      ),
    );
    const residuals = outcomes.map((outcome, i) => (outcome ? 1 : 0) - said[i]!);
    const change = times(covariance, times(x, residuals));
    beta = beta.map((value, j) => value + change[j]!);
    if (Math.max(...change.map(Math.abs)) < LOGISTIC_DONE * (1 + Math.max(...beta.map(Math.abs)))) {
      const isClustered = groups < outcomes.length;
      const moved = isClustered
        ? clusterScores(x, residuals, clusters).map((score) => times(covariance, score))
        : [];
      const coefficients = beta.map((value, j) => {
        const variance = isClustered
          ? (groups / (groups - 1)) * moved.reduce((sum, each) => sum + each[j]! ** 2, 0)
          : covariance[j]![j]!;
        const error = Math.sqrt(variance);
        const p = isClustered
          ? tested(value, error, groups - 1).p
          : Math.min(1, 2 * normalTail(Math.abs(value / error)));
        const half = (isClustered ? studentQuantile(0.025, groups - 1) : Z95) * error;
        return {
          value: value / lengths[j]!,
          error: error / lengths[j]!,
          half: half / lengths[j]!,
          p,
        };
      });
      return {
        coefficients,
        losses: outcomes.map((outcome, i) => -Math.log(outcome ? said[i]! : 1 - said[i]!)),
      };
    }
  }
  return null;
}
