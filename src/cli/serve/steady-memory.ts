import { setFlagsFromString } from 'node:v8';

/**
 * Makes V8 collect garbage in many short pauses and keep its heap close to the live size, for a
 * serving process. By default V8 lets both grow: pauses of tens of milliseconds while other threads
 * are busy, and tens of megabytes that come and go. Call it early, since a grown heap does not
 * shrink.
 */
export function keepMemorySteady(): void {
  // What is new stays in the megabyte that it begins with; it is too small to be shared among
  // threads that would be waited for.
  setFlagsFromString('--semi-space-growth-factor=1');
  setFlagsFromString('--no-parallel-scavenge');
  // What is old is collected when it is half as much again as was alive the last time, not up to
  // four times as much.
  setFlagsFromString('--heap-growing-percent=50');
}
