/** Text of a job's event in one line; an event of unknown form is shown as JSON. */
import { figure, percent, plural } from './format.ts';
import type { JobEvent } from './job-api.ts';

interface Said {
  readonly state?: string;
  readonly text?: string;
  readonly iteration?: number;
  readonly hitRate?: number | null;
  readonly steps?: number;
  readonly step?: number;
  readonly loss?: number | null;
  readonly dev?: { readonly mean: number | null };
  readonly gate?: { readonly rolledBack: boolean } | null;
  readonly rulesFired?: readonly string[];
  readonly decisions?: readonly {
    readonly cites: readonly string[];
    readonly remedy_direction?: string | null;
  }[];
}

const joined = (...parts: (string | false)[]): string =>
  parts.filter((part) => part !== false).join(', ');

export function eventText({ type, data }: JobEvent): string {
  const { state, text, iteration, hitRate, steps, step, loss, dev, gate, rulesFired, decisions } =
    (data ?? {}) as Said;
  const lossText = loss != null && `loss ${figure(loss)}`;
  if (type === 'state' && state !== undefined) return state;
  if (type === 'notice' && text !== undefined) return text;
  if (type === 'step' && step !== undefined) return joined(`step ${step}`, lossText);
  if (type === 'iteration' && iteration !== undefined)
    return joined(
      `iteration ${iteration}: ${percent(hitRate)} of the rollouts pass`,
      steps !== undefined && plural(steps, 'step'),
      lossText,
      dev !== undefined && `dev ${percent(dev.mean)}`,
      gate?.rolledBack === true && 'rolled back',
      rulesFired !== undefined && rulesFired.length > 0 && `rules ${rulesFired.join(', ')}`,
    );
  if (type === 'rule' && decisions !== undefined)
    return decisions
      .map(({ cites, remedy_direction: direction }) =>
        joined(cites.join(' '), direction != null && direction),
      )
      .join('; ');
  return JSON.stringify(data);
}
