/** Text of a setup, the same in every output. */
import { NO_PROMPT } from '../truth-seeking/analysis/from-run.js';

/** `accuracy:metric=brier,mode=eventual` as `accuracy brier,eventual`. */
export const specText = (spec: string): string => spec.replace(/\b\w+=/g, '').replace(':', ' ');

interface Asked {
  readonly domain: string;
  readonly mode: string;
  readonly systemPrompt: string | null;
}

export const setupText = ({ domain, mode, systemPrompt }: Asked): string =>
  [
    domain,
    specText(mode),
    ...(systemPrompt === null || systemPrompt === NO_PROMPT ? [] : [systemPrompt]),
  ].join(' · ');
