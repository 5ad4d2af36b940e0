import { LATEST_START } from '../scheduling/check-schedule.js';
import type { Schedule } from '../scheduling/problem.js';
import type { Parsed } from '../task.js';

/**
 * The original's five strategies in its order (isopro.md §3.1): the first that finds a pair wins,
 * all matches over the whole text count, the last mention of a letter stands, letters need no word
 * boundary, completeness is not required. Each pattern is linear in the text. A start beyond every
 * horizon is capped: it fails all the same.
 */
const STRATEGIES: readonly (readonly [name: string, pattern: RegExp])[] = [
  ['colon', /(?:job\s*)?([a-z])\s*:\s*(\d+)/gi],
  [
    'starts_at',
    /(?:job\s*)?([a-z])\s+(?:starts?|begins?)\s+(?:at\s+)?(?:time\s+(?:step\s+)?)?(\d+)/gi,
  ],
  ['equals', /(?:job\s*)?([a-z])\s*=\s*(\d+)/gi],
  [
    'numbered_list',
    /(?<!\d)\d+\.\s*(?:job\s*)?([a-z])\s*(?::|-|–|—)\s*(?:start\s*(?:time\s*)?)?(\d+)/gi,
  ],
];
const JSON_OBJECT = /\{[^{}]*\}/;
const JSON_PAIR = /["']?([a-z])["']?\s*:\s*(\d+)/gi;

export function parseClassic(text: string): Parsed<Schedule> {
  for (const [form, pattern] of STRATEGIES) {
    const answer = collect(text, pattern);
    if (answer !== null) return { ok: true, answer, form };
  }
  const answer = collect(JSON_OBJECT.exec(text)?.[0] ?? '', JSON_PAIR);
  if (answer !== null) return { ok: true, answer, form: 'json' };
  return { ok: false, category: 'parsing', detail: 'No start time was found.' };
}

function collect(text: string, pattern: RegExp): Schedule | null {
  const said = new Map<string, string>();
  for (const [, letter, digits] of text.matchAll(pattern)) said.set(letter!.toUpperCase(), digits!);
  if (said.size === 0) return null;
  // numbers are made of the last mentions alone: a text may have thousands
  return Object.fromEntries(
    Array.from(said, ([letter, digits]) => [letter, Math.min(LATEST_START, Number(digits))]),
  );
}
