/**
 * A clock that is ahead, of a thread in which a task is tried again: what depends on the day or the
 * hour comes out otherwise there.
 */

/** Year, month, day, day of the week, hour, minute and second are others. */
export const AHEAD_SECONDS = 400 * 86_400 + 7 * 3600 + 13 * 60 + 37;

/** `Date` of this thread. What is measured with it stays as long as it was. */
export function setClockAhead(seconds: number): void {
  const Real = Date;
  const now = (): number => Real.now() + 1000 * seconds;
  globalThis.Date = new Proxy(Real, {
    construct: (target, given, made) =>
      Reflect.construct(target, given.length === 0 ? [now()] : given, made) as object,
    apply: () => new Real(now()).toString(),
    get: (target, name, receiver) => (name === 'now' ? now : Reflect.get(target, name, receiver)),
  });
}
