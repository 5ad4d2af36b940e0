/** Describes what a run put before every question that its adapter was trained on. */
import type { RunStart } from './manifest.js';
import { readWrittenSettings } from './written-settings.js';

export const solvedExamples = (count: number): string =>
  `${count} solved ${count === 1 ? 'example' : 'examples'}`;

/** Returns what came before the question; null if nothing did. */
export function trainedBehind({ settings }: Pick<RunStart, 'settings'>): string | null {
  const { system, examples } = readWrittenSettings(settings).sampling;
  const parts = [
    ...(system === undefined ? [] : ['a system message']),
    ...(examples === undefined ? [] : [solvedExamples(examples)]),
  ];
  return parts.length === 0 ? null : parts.join(' and ');
}
