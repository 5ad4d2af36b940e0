/** How figures are written, in the terminal and on the page. */
import type { Interval } from '../statistics/index.js';

export const percent = (fraction: number | null | undefined): string => (fraction == null ? '–' : (100 * fraction).toFixed(1));
export const bounds = ({ low, high }: Interval): string => `${(100 * low).toFixed(1)}–${(100 * high).toFixed(1)}`;
/** Percentage points with their sign. */
export const points = (difference: number | null | undefined): string =>
  difference == null ? '–' : `${difference > 0 ? '+' : difference < 0 ? '−' : ''}${Math.abs(100 * difference).toFixed(1)}`;
export const pValue = (p: number): string => (p < 1e-4 ? p.toExponential(1) : p.toFixed(4));
/** A count with its thousands apart. */
export const whole = (count: number): string => String(Math.round(count)).replace(/\B(?=(\d{3})+$)/g, ',');
