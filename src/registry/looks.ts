/**
 * Looks at a gate. Each look contains every trial of those before it: if trials could be left out
 * or changed once their outcome is known, any challenger would win.
 */
import { hash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { asJson, canonicalJson } from '../canonical-json.js';
import { IsoproError } from '../errors.js';
import type { GateEvidence, TrialInput } from '../gate/index.js';
import type { Reading } from './ledger.js';
import type { Registry } from './registry.js';

export type Look = Pick<GateEvidence, 'trials' | 'guards'>;

const SHOWN = 3;

/** The kept trials of a gate by their SHA-256, one a look, oldest first. */
export const looksAt = (gate: number, events: Reading['events']): readonly string[] =>
  events.flatMap(({ event }) =>
    event.kind === 'gate_decided' && event.gate === gate ? [event.evidence] : [],
  );

/** Returns the kept trials of a look; null if they are missing or changed. */
export function keptLook({ paths }: Pick<Registry, 'paths'>, sha256: string): Look | null {
  let text: string;
  try {
    text = readFileSync(paths.trials(sha256), 'utf8');
  } catch {
    return null;
  }
  return hash('sha256', text) === sha256 ? (JSON.parse(text) as Look) : null;
}

/** Returns the identity of a trial; no look has two trials with the same one. */
const placeOf = (
  guard: string | null,
  { task, problem, sample = 0, version }: TrialInput,
): string => JSON.stringify([guard, task, problem, sample, version]);

interface Seen {
  readonly trial: TrialInput;
  readonly guard: string | null;
}

/** Trials of a gate that were seen so far. */
export class Looks {
  readonly #seen = new Map<string, Seen>();

  /**
   * Returns the trials as last seen, in the order in which they first appeared.
   * @param guard null for the target
   */
  trials(guard: string | null): TrialInput[] {
    return [...this.#seen.values()].flatMap((seen) => (seen.guard === guard ? [seen.trial] : []));
  }

  /**
   * Takes a look.
   * @returns what it leaves out or changes of an earlier look: a few trials and how many more;
   *   empty if nothing
   */
  take({ trials, guards = {} }: Look): readonly string[] {
    const given = new Map<string, Seen>();
    for (const [guard, of] of [[null, trials] as const, ...Object.entries(guards)])
      for (const trial of of) given.set(placeOf(guard, trial), { trial, guard });
    const broken: string[] = [];
    for (const [place, { trial, guard }] of this.#seen) {
      const now = given.get(place)?.trial;
      const what = now === undefined ? 'left out' : isUnchanged(trial, now) ? null : 'changed';
      if (what === null) continue;
      const { problem, version, sample = 0 } = trial;
      const where = guard === null ? '' : `guard ${guard}, `;
      broken.push(
        `${where}problem ${problem.slice(0, 60)}, sample ${sample}, version ${version.slice(0, 12)} is ${what}`,
      );
    }
    for (const [place, trial] of given) this.#seen.set(place, trial);
    return broken.length > SHOWN
      ? [...broken.slice(0, SHOWN), `and ${broken.length - SHOWN} more`]
      : broken;
  }
}

/** A trial that failed may be repeated; one that came out may not. */
function isUnchanged(before: TrialInput, now: TrialInput): boolean {
  const hasFailed = before.score === undefined;
  const text = ({ sample = 0, lane = 'confirmation', score, error, ...rest }: TrialInput): string =>
    canonicalJson(asJson({ ...rest, sample, lane, ...(hasFailed ? {} : { score, error }) }));
  return text(before) === text(now);
}

/**
 * Returns the trials of earlier looks at a gate.
 * @throws IsoproError REGISTRY_INVALID if trials of an earlier look are missing or changed
 */
export function earlierLooks(
  registry: Pick<Registry, 'paths'>,
  gate: number,
  events: Reading['events'],
): Looks {
  const looks = new Looks();
  for (const sha256 of looksAt(gate, events)) {
    const look = keptLook(registry, sha256);
    if (look === null)
      throw new IsoproError(
        'REGISTRY_INVALID',
        `gate ${gate}: the trials ${registry.paths.trials(sha256)} are missing or changed`,
      );
    looks.take(look);
  }
  return looks;
}

/**
 * Requires that a look contains the trials of those before it.
 * @throws IsoproError GATE_EVIDENCE_INVALID if it does not; REGISTRY_INVALID
 */
export function requireWhole(
  registry: Pick<Registry, 'paths'>,
  gate: number,
  events: Reading['events'],
  look: Look,
): void {
  const broken = earlierLooks(registry, gate, events).take(look);
  if (broken.length === 0) return;
  throw new IsoproError(
    'GATE_EVIDENCE_INVALID',
    `gate ${gate} has earlier looks, and the evidence does not contain all of their trials unchanged: ${broken.join('; ')}`,
    {
      remedy:
        'Give all trials of this gate together: those of the earlier looks, unchanged, and the new ones.',
    },
  );
}
