import { setFlagsFromString } from 'node:v8';

/**
 * For a process that serves: V8 collects garbage in many short pauses, and keeps its heap near the
 * size of what is alive. By itself it lets both grow first: pauses of tens of milliseconds where
 * other threads are busy, and tens of megabytes that come and go. To be called before there is much
 * of either: what has grown does not shrink.
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
