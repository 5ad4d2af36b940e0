/**
 * State of a registry: a fold over its events and nothing else. It is the only state machine: what
 * it refuses is never written, and a log with such an event is not read.
 */
import { hash } from 'node:crypto';
import { canonicalJson, type Json } from '../canonical-json.js';
import { IsoproError } from '../errors.js';
import {
  alphaOf,
  rollbackPolicy,
  type Decision,
  type GatePolicy,
  type RollbackPolicy,
} from '../gate/index.js';
import { rootOf } from '../log/merkle.js';
import type { EventOf, Probation, RegistryEvent } from './events.js';
import { aliasText, CHAMPION, type Slot } from './names.js';
import { recordId, type AdapterRecord } from './record.js';

export interface Entry {
  readonly id: string;
  readonly record: AdapterRecord;
  /** Time of its record in the log, microseconds since 1970. */
  readonly publishedUs: number;
  /** Reason why it may no longer be used; null if it may. */
  readonly withdrawn: string | null;
  /** Its bytes were deleted. */
  readonly collected: boolean;
}

export interface Observed {
  /** Level of the first look at the version; it stays for as long as the version is in use. */
  readonly policy: RollbackPolicy;
  /** The version before; null: the base without an adapter. */
  readonly against: string | null;
  /** Problems that count. */
  readonly blocks: number;
  /** The kept trials by their SHA-256, oldest first. */
  readonly evidence: readonly string[];
}

export interface AliasState {
  readonly slot: Slot;
  readonly alias: string;
  /**
   * Current version; null after a rollback to before the first one: the base model without an
   * adapter.
   */
  readonly current: string | null;
  /** Earlier versions, the latest last; rolled-back versions are not included. */
  readonly previous: readonly (string | null)[];
  /** Number of moves. */
  readonly moves: number;
  readonly movedUs: number;
  /** Terms of the current probation; null if every key gets the current version. */
  readonly probation: Probation | null;
  /** Trials posted since the last move; null if there are none. */
  readonly observed: Observed | null;
}

export interface GateState extends Readonly<Omit<EventOf<'gate_opened'>, 'kind'>> {
  /** Seed; null until the witness has revealed the nonce. */
  readonly seed: string | null;
  /** Last decision; null if there is none. */
  readonly decision: Decision | null;
  readonly evidence: string | null;
  readonly used: boolean;
}

function refuse(message: string): never {
  throw new IsoproError('REGISTRY_REFUSED', message);
}

/** Level for a version that is not on probation at the first look. */
const ALWAYS_ON: RollbackPolicy = rollbackPolicy.parse({});

/** Returns the level of a name's probation, or the default. */
const policyNow = ({ probation }: Pick<AliasState, 'probation'>): RollbackPolicy =>
  probation === null ? ALWAYS_ON : { alpha: probation.alpha, margin: probation.margin };

/**
 * Returns the level for trials of the version in use. An e-process whose level is chosen after a
 * look guarantees nothing.
 */
export const policyOf = (named: Pick<AliasState, 'probation' | 'observed'>): RollbackPolicy =>
  named.observed?.policy ?? policyNow(named);

const fixed = ({ alpha, margin }: RollbackPolicy): string => `alpha ${alpha}, margin ${margin}`;

/**
 * Requires that terms keep the level under which trials were compared.
 * @throws IsoproError REGISTRY_REFUSED
 */
export function requireLevel(named: Pick<AliasState, 'observed'>, terms: RollbackPolicy): void {
  const seen = named.observed?.policy;
  if (seen !== undefined && fixed(terms) !== fixed(seen))
    refuse(`trials were already compared under ${fixed(seen)}, which cannot change`);
}

/**
 * Returns the observations against a version. After a withdrawal a different version comes before,
 * and earlier trials say nothing about it.
 */
export const observedAgainst = (
  { observed }: AliasState,
  against: string | null,
): Observed | null => (observed?.against === against ? observed : null);

/** Returns how alpha is spent, which no later gate of an alias may change. */
function spendingOf(policy: GatePolicy): Json {
  const { kind, alpha } = policy;
  switch (policy.kind) {
    case 'e-process':
      return { kind, alpha, spending: policy.spending };
    case 'sign':
      return { kind, alpha, proposals: policy.proposals };
    case 'paired-t':
      return { kind, alpha, ratio: policy.ratio };
  }
}

/** Decisions after which a gate takes more trials. */
export const isOpen = ({ decision }: Pick<GateState, 'decision'>): boolean =>
  decision === null || decision === 'needs-more-trials' || decision === 'infrastructure-error';

/** `alias id`, sorted: the map whose root every signed head carries. */
export type AliasMap = readonly (readonly [alias: string, id: string | null])[];

/** Returns the Merkle root (RFC 6962) over the entries in order, 64 hex digits. */
export const rootOfAliases = (map: AliasMap): string =>
  rootOf(
    map.map((entry) =>
      hash('sha256', Buffer.concat([Buffer.of(0), Buffer.from(canonicalJson(entry))]), 'hex'),
    ),
  );

export class RegistryState {
  readonly #entries = new Map<string, Entry>();
  readonly #aliases = new Map<string, AliasState>();
  readonly #gates: GateState[] = [];
  readonly #transactions = new Map<string, EventOf<'moved'>>();
  #events = 0;

  /** Number of applied events. */
  get events(): number {
    return this.#events;
  }

  get entries(): ReadonlyMap<string, Entry> {
    return this.#entries;
  }

  get gates(): readonly GateState[] {
    return this.#gates;
  }

  get aliases(): readonly AliasState[] {
    return [...this.#aliases.values()];
  }

  alias(slot: Slot, alias: string): AliasState | null {
    return this.#aliases.get(aliasText(slot, alias)) ?? null;
  }

  /** The move that a caller has named so before. */
  transaction(name: string): EventOf<'moved'> | null {
    return this.#transactions.get(name) ?? null;
  }

  map(): AliasMap {
    return [...this.#aliases]
      .map(([text, { current }]) => [text, current] as const)
      .sort(([a], [b]) => (a < b ? -1 : 1));
  }

  /** Returns the root that every signed head carries. */
  root(): string {
    return rootOfAliases(this.map());
  }

  /**
   * Returns the ids whose bytes must stay: those that an alias names and those that a rollback
   * would restore.
   */
  inUse(): ReadonlySet<string> {
    return new Set(
      this.aliases
        .flatMap(({ current, previous }) => [current, ...previous])
        .filter((id) => id !== null),
    );
  }

  /** Returns the number of gates that were opened on a name. */
  attempts(slot: Slot, alias: string): number {
    const text = aliasText(slot, alias);
    return this.#gates.filter((gate) => aliasText(gate.slot, gate.alias) === text).length;
  }

  /**
   * Returns the last gate of an adapter for a name if it can still move it: open, or accepted and
   * unused, against the current version.
   */
  pendingGate(slot: Slot, alias: string, challenger: string): GateState | null {
    const text = aliasText(slot, alias);
    const last = this.#gates.findLast(
      (gate) => gate.challenger === challenger && aliasText(gate.slot, gate.alias) === text,
    );
    const current = this.alias(slot, alias)?.current ?? null;
    if (last === undefined || last.seed === null || last.used || last.incumbent !== current)
      return null;
    return last.decision === 'accepted' || isOpen(last) ? last : null;
  }

  /** Returns the version that a rollback would restore; undefined if there is none. */
  before(slot: Slot, alias: string): string | null | undefined {
    return this.#aliases
      .get(aliasText(slot, alias))
      ?.previous.findLast((id) => id === null || this.#usable(id));
  }

  /**
   * Returns the version that a rollback would restore.
   * @throws IsoproError REGISTRY_REFUSED if there is none
   */
  rollbackTarget(slot: Slot, alias: string): string | null {
    const found = this.before(slot, alias);
    return found === undefined
      ? refuse(`${aliasText(slot, alias)} has no earlier version to restore`)
      : found;
  }

  #usable(id: string): boolean {
    const entry = this.#entries.get(id);
    return entry !== undefined && entry.withdrawn === null && !entry.collected;
  }

  #requireUsable(id: string): Entry {
    const entry = this.#entries.get(id) ?? refuse(`${id} is not published`);
    if (entry.withdrawn !== null) refuse(`${id} was withdrawn: ${entry.withdrawn}`);
    if (entry.collected) refuse(`the bytes of ${id} were deleted; publish it again`);
    return entry;
  }

  /** Returns a gate by its number. @throws IsoproError REGISTRY_REFUSED if there is no such gate */
  gate(number: number): GateState {
    return this.#gates[number - 1] ?? refuse(`there is no gate ${number}`);
  }

  #replaceGate(gate: GateState): void {
    this.#gates[gate.gate - 1] = gate;
  }

  /**
   * Applies an event, or throws and stays as it was.
   * @param timeUs time of its record in the log
   * @throws IsoproError REGISTRY_REFUSED, CONFLICT if the alias names a different version now
   */
  apply(event: RegistryEvent, timeUs: number): void {
    switch (event.kind) {
      case 'published':
        this.#publish(event, timeUs);
        break;
      case 'moved':
        this.#move(event, timeUs);
        break;
      case 'gate_opened':
        this.#open(event);
        break;
      case 'gate_drawn': {
        const gate = this.gate(event.gate);
        if (gate.seed !== null) refuse(`the seed of gate ${event.gate} was already drawn`);
        this.#replaceGate({ ...gate, seed: event.seed });
        break;
      }
      case 'gate_decided': {
        const gate = this.gate(event.gate);
        if (gate.seed === null)
          refuse(`gate ${event.gate} has no seed yet, so nothing can have been measured for it`);
        if (!isOpen(gate)) refuse(`gate ${event.gate} was decided: ${gate.decision}`);
        this.#replaceGate({ ...gate, decision: event.decision, evidence: event.evidence });
        break;
      }
      case 'probation': {
        const known = this.#named(event);
        if (event.terms === null && known.probation === null)
          refuse(`${aliasText(known.slot, known.alias)} is not on probation`);
        // older logs hold terms with the level of the probation before them: they are read, and
        // change no level
        if (event.terms !== null && fixed(event.terms) !== fixed(policyNow(known)))
          requireLevel(known, event.terms);
        this.rollbackTarget(event.slot, event.alias);
        this.#aliases.set(aliasText(event.slot, event.alias), { ...known, probation: event.terms });
        break;
      }
      case 'observed': {
        const known = this.#named(event);
        const { slot, alias, against, blocks, evidence } = event;
        if (against !== this.rollbackTarget(slot, alias))
          refuse('the trials compare with a version that a rollback would not restore');
        const earlier = observedAgainst(known, against);
        if (blocks < (earlier?.blocks ?? 0))
          refuse(`${earlier?.blocks} problems were already observed, more than ${blocks}`);
        const observed = {
          policy: policyOf(known),
          against,
          blocks,
          evidence: [...(earlier?.evidence ?? []), evidence],
        };
        this.#aliases.set(aliasText(slot, alias), { ...known, observed });
        break;
      }
      case 'withdrawn': {
        const entry = this.#requireUsable(event.id);
        const named = this.aliases
          .filter(({ current }) => current === event.id)
          .map(({ slot, alias }) => aliasText(slot, alias));
        if (named.length > 0) refuse(`${event.id} is in use as ${named.join(', ')}`);
        this.#entries.set(event.id, { ...entry, withdrawn: event.reason });
        break;
      }
      case 'collected': {
        const inUse = this.inUse();
        const entries = event.ids.map((id) => {
          if (inUse.has(id)) refuse(`${id} is in use`);
          return this.#entries.get(id) ?? refuse(`${id} is not published`);
        });
        for (const entry of entries) this.#entries.set(entry.id, { ...entry, collected: true });
        break;
      }
      case 'fell_back':
      case 'witnessed':
        break;
    }
    this.#events++;
  }

  #publish({ id, record }: EventOf<'published'>, timeUs: number): void {
    if (recordId(record) !== id) refuse(`the record does not match the id ${id}`);
    const known = this.#entries.get(id);
    if (known !== undefined && !known.collected) refuse(`${id} is already published`);
    const { parent } = record.lineage;
    // so that no lineage is circular
    if (parent !== null && !this.#entries.has(parent))
      refuse(`its parent ${parent} is not published`);
    this.#entries.set(
      id,
      known === undefined
        ? { id, record, publishedUs: timeUs, withdrawn: null, collected: false }
        : { ...known, collected: false },
    );
  }

  /** Returns the alias of an event if it names the event's version. */
  #named({ slot, alias, id }: EventOf<'probation' | 'observed'>): AliasState {
    const text = aliasText(slot, alias);
    const known = this.#aliases.get(text);
    if (known?.current === id) return known;
    throw new IsoproError(
      'CONFLICT',
      `${text} names ${known?.current ?? 'nothing'} now, not ${id}`,
    );
  }

  #move(event: EventOf<'moved'>, timeUs: number): void {
    const { slot, alias, from, to, cause, gate: number, forced, transaction } = event;
    const text = aliasText(slot, alias);
    const known = this.#aliases.get(text);
    const current = known?.current ?? null;
    if (transaction !== null && this.#transactions.has(transaction))
      refuse(`the transaction ${transaction} was already completed`);
    if (from !== current)
      throw new IsoproError(
        'CONFLICT',
        `${text} names ${current ?? 'nothing'} now, not ${from ?? 'nothing'}`,
      );
    if (event.evidence !== null && cause !== 'rollback')
      refuse(`a ${cause} cannot name trials: they belong to its gate`);
    const before = known?.previous ?? [];
    if (cause === 'rollback') {
      if (to !== this.rollbackTarget(slot, alias))
        refuse(`a rollback of ${text} must restore its previous version`);
    } else {
      if (to === null) refuse(`${text} can only be moved to a published adapter`);
      this.#requireUsable(to);
      if (to === current) refuse(`${text} already names ${to}`);
      if ((cause === 'promotion') !== (alias === CHAMPION))
        refuse(`${text} must be moved by ${alias === CHAMPION ? 'a promotion' : 'an assignment'}`);
      if (cause === 'promotion' && forced !== (number === null))
        refuse(`${text} needs a gate that accepted, or force`);
    }
    if (number !== null) {
      const gate = this.gate(number);
      if (
        cause !== 'promotion' ||
        aliasText(gate.slot, gate.alias) !== text ||
        gate.challenger !== to
      )
        refuse(`gate ${number} is about a different move`);
      if (gate.used) refuse(`gate ${number} was already used to move ${text}`);
      if (gate.decision !== 'accepted')
        refuse(
          `gate ${number} has not accepted ${gate.challenger}: ${gate.decision ?? 'undecided'}`,
        );
      if (gate.incumbent !== current)
        throw new IsoproError(
          'CONFLICT',
          `gate ${number} compared ${to} with ${gate.incumbent ?? 'the base'}, but ${text} has moved since`,
        );
      this.#replaceGate({ ...gate, used: true });
    }
    this.#aliases.set(text, {
      ...{ slot, alias, current: to, movedUs: timeUs, probation: null, observed: null },
      previous:
        cause === 'rollback' ? before.slice(0, before.lastIndexOf(to)) : [...before, current],
      moves: (known?.moves ?? 0) + 1,
    });
    if (transaction !== null) this.#transactions.set(transaction, event);
  }

  /**
   * Returns the names of a version, of the versions that it was trained from, and of what produced
   * them.
   */
  #line(id: string | null): string[] {
    const names: string[] = [];
    for (let entry = id === null ? undefined : this.#entries.get(id); entry !== undefined; ) {
      const { parent, producedBy } = entry.record.lineage;
      names.push(`adapter:${entry.id}`, ...producedBy);
      entry = parent === null ? undefined : this.#entries.get(parent);
    }
    return names;
  }

  #open({ kind: _, ...event }: EventOf<'gate_opened'>): void {
    const { gate, slot, alias, challenger, incumbent, policy, attempt, alpha } = event;
    const text = aliasText(slot, alias);
    const current = this.#aliases.get(text)?.current ?? null;
    if (alias !== CHAMPION)
      refuse(`${text} cannot have a gate: only ${CHAMPION} is moved by a gate`);
    if (gate !== this.#gates.length + 1)
      refuse(`this is gate ${gate}, but the next gate is ${this.#gates.length + 1}`);
    this.#requireUsable(challenger);
    if (incumbent !== current)
      throw new IsoproError('CONFLICT', `${text} names ${current ?? 'nothing'} now`);
    if (challenger === current) refuse(`${text} already names ${challenger}`);
    const line = new Set(
      event.lineage === 'any' ? [] : [...this.#line(challenger), ...this.#line(incumbent)],
    );
    const own =
      this.#entries.get(challenger)!.record.dataset?.answersOf.filter((name) => line.has(name)) ??
      [];
    if (own.length > 0)
      refuse(
        `${challenger} was trained on answers of its own line (${own.join(', ')}), which this gate does not accept`,
      );
    if (attempt !== this.attempts(slot, alias) + 1)
      refuse(
        `this is attempt ${attempt}, but the next attempt on ${text} is ${this.attempts(slot, alias) + 1}`,
      );
    if (alpha !== alphaOf(policy, attempt))
      refuse(
        `attempt ${attempt} on ${text} must spend an alpha of ${alphaOf(policy, attempt)}, not ${alpha}`,
      );
    const first = this.#gates.find((each) => aliasText(each.slot, each.alias) === text);
    if (
      first !== undefined &&
      canonicalJson(spendingOf(first.policy)) !== canonicalJson(spendingOf(policy))
    )
      refuse(
        `the first gate on ${text} fixed how its alpha is spent: ${canonicalJson(spendingOf(first.policy))}`,
      );
    this.#gates.push({ ...event, seed: null, decision: null, evidence: null, used: false });
  }
}
