/** Figures as text. */

export const percent = (fraction: number | null | undefined, digits = 1): string =>
  fraction == null ? '–' : `${(100 * fraction).toFixed(digits)} %`;
export const points = (difference: number): string =>
  `${difference > 0 ? '+' : difference < 0 ? '−' : ''}${Math.abs(100 * difference).toFixed(1)}`;
export const pValue = (p: number | null | undefined): string =>
  p == null ? '–' : p < 1e-4 ? p.toExponential(1) : p.toFixed(4);
export const whole = (count: number): string => Math.round(count).toLocaleString('en');
export const megabytes = (bytes: number): string =>
  bytes >= 2e9
    ? `${(bytes / 1e9).toFixed(1)} GB`
    : bytes >= 1e6
      ? `${whole(bytes / 1e6)} MB`
      : `${whole(bytes / 1e3)} kB`;
export const figure = (value: number | null | undefined): string =>
  value == null
    ? '–'
    : Math.abs(value) >= 1000
      ? whole(value)
      : String(Number(value.toPrecision(3)));
export const duration = (seconds: number): string =>
  seconds < 1
    ? '< 1 s'
    : seconds < 120
      ? `${seconds.toFixed(0)} s`
      : seconds < 7200
        ? `${(seconds / 60).toFixed(1)} min`
        : `${(seconds / 3600).toFixed(1)} h`;
export const shortId = (id: string): string => id.slice(0, 12);
export const plural = (count: number, one: string, several = `${one}s`): string =>
  `${whole(count)} ${count === 1 ? one : several}`;

/** Problems gained and lost in a paired test. */
export const paired = (
  of: { readonly gained: number; readonly lost: number } | undefined,
): string => (of === undefined ? '–' : `+${of.gained} −${of.lost}`);

/** Date and time in the reader's own time zone. */
export function when(iso: string | null): string {
  if (iso === null) return '–';
  const date = new Date(iso);
  const two = (value: number): string => String(value).padStart(2, '0');
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${two(date.getHours())}:${two(date.getMinutes())}`;
}

/** Leaves of an object by their path, such as `sampling.rollouts`. */
export function flat(value: unknown, at = ''): (readonly [path: string, value: string])[] {
  if (typeof value === 'object' && value !== null && !Array.isArray(value))
    return Object.entries(value).flatMap(([name, inner]) =>
      flat(inner, at === '' ? name : `${at}.${name}`),
    );
  return [[at, typeof value === 'string' ? value : JSON.stringify(value)]];
}
