/**
 * Publishes adapters, moves names between them and rolls names back. Calls are independent: nothing
 * is held between two of them.
 */
import { z } from 'zod';
import { inspectAdapter } from '../engine/adapter-files.js';
import { checked } from '../engine/argument-check.js';
import { hashFile } from '../engine/adapter.js';
import { statSync } from 'node:fs';
import { IsoproError } from '../errors.js';
import { probation, type EventOf, type RegistryEvent } from './events.js';
import { defaultRegistry, keepBytes, registryPaths, type RegistryPaths } from './folder.js';
import {
  readLedger,
  writeLedger,
  type Ledger,
  type LedgerOptions,
  type Reading,
} from './ledger.js';
import {
  alias as aliasForm,
  aliasText,
  CHAMPION,
  slot as slotForm,
  type Slot,
  type SlotInput,
} from './names.js';
import { Questions, serversOf } from './servers.js';
import type { RegistryState } from './state.js';
import { adapterRecord, nameOf, recordId, sha256, type AdapterRecord } from './record.js';

export interface RegistryOptions extends LedgerOptions {
  /** Default: `$ISOPRO_HOME/registry`. */
  readonly folder?: string;
}

const request = z.strictObject({
  /** A GGUF. */
  file: z.string().min(1),
  base: z.strictObject({ name: z.string().min(1), sha256, architecture: z.string().optional() }),
  rendererId: adapterRecord.shape.rendererId.default(null),
  settings: adapterRecord.shape.settings.default({}),
  dataset: adapterRecord.shape.dataset.default(null),
  evidence: adapterRecord.shape.evidence.default([]),
  lineage: adapterRecord.shape.lineage.default({ parent: null, producedBy: [] }),
});
/** Facts about an adapter that the registry cannot read from its file. */
export type PublishRequest = z.input<typeof request>;

export interface Published {
  readonly id: string;
  readonly name: string;
  readonly record: AdapterRecord;
  /** False if it was already published. */
  readonly isNew: boolean;
}

export interface AliasName {
  readonly slot: SlotInput;
  /** Default: champion. */
  readonly alias?: string;
}

const move = z.strictObject({
  slot: slotForm,
  alias: aliasForm.default(CHAMPION),
  /** The whole id of a published adapter. */
  id: sha256,
  /** The gate that accepted it; champion only. */
  gate: z.number().int().min(1).optional(),
  /** Without a gate; champion only. It is on record. */
  force: z.boolean().default(false),
  reason: z.string().max(2000).default(''),
  /** Version that the alias must name now; default: the one that it named when the call began. */
  expected: sha256.nullable().optional(),
  /** A second call with the same one changes nothing. */
  transaction: z.string().min(1).max(200).optional(),
  /** Terms of a probation: part of the keys get it, until enough problems have passed. */
  probation: probation.optional(),
  /** Milliseconds that running servers may take to load it. Default: a minute. */
  patienceMs: z.number().min(0).max(86_400_000).default(60_000),
});
export type MoveRequest = z.input<typeof move>;

export interface Moved {
  readonly alias: string;
  readonly from: string | null;
  readonly to: string | null;
}

/** Checks a name and fills in its defaults. @throws IsoproError INVALID_ARGUMENT */
export const checkedName = ({ slot, alias = CHAMPION }: AliasName) => ({
  slot: checked(slotForm, slot, 'slot'),
  alias: checked(aliasForm, alias, 'alias'),
});

export const rollbackOf = (
  slot: Slot,
  alias: string,
  from: string | null,
  to: string | null,
  reason: string,
  evidence: string | null = null,
): EventOf<'moved'> => ({
  ...{ kind: 'moved', slot, alias, from, to, cause: 'rollback' },
  ...{ gate: null, forced: false, evidence, reason, transaction: null },
});

export type KeptBytes = 'sound' | 'missing' | 'changed';

export const describeBytes = (file: string, bytes: Exclude<KeptBytes, 'sound'>): string =>
  bytes === 'missing' ? `${file} is missing` : `${file} does not have the published bytes`;

export class Registry {
  readonly paths: RegistryPaths;
  readonly options: LedgerOptions;

  constructor({ folder, ...options }: RegistryOptions = {}) {
    this.paths = registryPaths(folder ?? defaultRegistry(options.home));
    this.options = options;
  }

  /**
   * Reads the whole registry from its signed log.
   * @throws IsoproError REGISTRY_NOT_FOUND, REGISTRY_INVALID, LOG_TAMPERED, WITNESS_KEY_MISSING
   */
  read(): Promise<Reading> {
    return readLedger(this.paths, this.options);
  }

  /**
   * Runs one piece of work as the only writer.
   * @throws IsoproError REGISTRY_NOT_FOUND, CONFLICT, REGISTRY_CLOCK, LOG_WRITE_FAILED
   */
  write<T>(work: (ledger: Ledger) => Promise<T>): Promise<T> {
    return writeLedger(this.paths, this.options, work, false);
  }

  /**
   * Publishes an adapter permanently: its bytes are copied, and its record never changes.
   * Publishing it again changes nothing.
   * @throws IsoproError ADAPTER_CORRUPT, MODEL_NOT_FOUND; ADAPTER_MISMATCH if the adapter names
   *   another base; REGISTRY_REFUSED if its parent is not published; WRITE_FAILED, LOG_WRITE_FAILED
   */
  async publish(given: PublishRequest): Promise<Published> {
    const { file, base, ...rest } = checked(request, given, 'request');
    const found = await inspectAdapter(file);
    if (found.format !== 'gguf')
      throw new IsoproError('INVALID_ARGUMENT', `${file} is a folder in PEFT format`, {
        remedy:
          'Convert it to GGUF first: `isopro-native adapters export FOLDER --model MODEL --format gguf --out FILE`.',
      });
    if (found.base.sha256 !== null && found.base.sha256 !== base.sha256)
      throw new IsoproError(
        'ADAPTER_MISMATCH',
        `${file} was trained on the base ${found.base.sha256}, not on ${base.sha256} (${base.name})`,
      );
    const targets = new Set(found.modules.map(({ name }) => name.replace(/^blk\.\d+\./, '')));
    const record = adapterRecord.parse({
      format: 'isopro.adapter.v1',
      adapter: {
        sha256: found.sha256,
        bytes: statSync(file).size,
        rank: Math.max(0, ...found.modules.map(({ rank }) => rank)),
        targets: [...targets].sort(),
        layers: [...found.layers].sort((a, b) => a - b),
        ...(found.invocationTokens !== null && { invocationTokens: [...found.invocationTokens] }),
      },
      base: { ...base, architecture: base.architecture ?? found.architecture },
      ...rest,
    });
    const id = recordId(record);
    const put = async ({ reading: { state }, write }: Ledger): Promise<Published> => {
      const known = state.entries.get(id);
      await keepBytes(file, found.sha256, this.paths.adapter(found.sha256));
      const isNew = known === undefined || known.collected;
      if (isNew) await write([{ kind: 'published', id, record: known?.record ?? record }]);
      return { id, name: nameOf(record, id), record: known?.record ?? record, isNew };
    };
    return writeLedger(this.paths, this.options, put, true);
  }

  /**
   * Moves an alias to an adapter: champion by a gate that accepted it or by force, any other alias
   * without. Running servers (`serveAdapters`) have loaded it when the call returns.
   * @throws IsoproError CONFLICT if someone else has moved it since the call began;
   *   REGISTRY_REFUSED; ADAPTER_CORRUPT if its bytes are not the published ones; SERVER_NOT_READY
   *   if a running server cannot load it, or not in time
   */
  async move(given: MoveRequest): Promise<Moved> {
    const { slot, alias, id, reason, transaction, ...asked } = checked(move, given, 'request');
    const { expected, probation: terms, patienceMs } = asked;
    const text = aliasText(slot, alias);
    const { state: seen } = await this.read();
    const done = (state: RegistryState): Moved | null => {
      const before = transaction === undefined ? null : state.transaction(transaction);
      if (before === null) return null;
      if (aliasText(before.slot, before.alias) !== text || before.to !== id)
        throw new IsoproError(
          'CONFLICT',
          `the transaction ${transaction} already moved ${aliasText(before.slot, before.alias)} to ` +
            `${before.to ?? 'the base'}, not ${text} to ${id}`,
        );
      return { alias: text, from: before.from, to: before.to };
    };
    const early = done(seen);
    if (early !== null) return early;
    const moved: EventOf<'moved'> = {
      kind: 'moved',
      slot,
      alias,
      from: expected === undefined ? (seen.alias(slot, alias)?.current ?? null) : expected,
      to: id,
      cause: alias === CHAMPION ? 'promotion' : 'assignment',
      gate: asked.gate ?? null,
      forced: asked.force,
      evidence: null,
      reason,
      transaction: transaction ?? null,
    };
    const events: RegistryEvent[] = [moved];
    if (terms !== undefined) events.push({ kind: 'probation', slot, alias, id, terms, reason });
    await this.requireBytesOf(seen, id);
    // refuse before asking servers
    for (const event of events) seen.apply(event, 0);
    const base = seen.entries.get(id)!.record.base.sha256;
    const questions = new Questions(this.paths, { id, alias: text, patienceMs });
    try {
      for (;;) {
        await questions.ask(serversOf(this.paths, text, base));
        const result = await this.write(async ({ reading: { state }, write }) => {
          const before = done(state);
          if (before !== null) return before;
          await this.requireBytesOf(state, id);
          // a server started meanwhile
          if (!questions.covers(serversOf(this.paths, text, base))) return null;
          await write(events);
          return { alias: text, from: moved.from, to: id };
        });
        if (result !== null) return result;
      }
    } finally {
      questions.withdraw();
    }
  }

  /**
   * Restores the version that the alias named before, in one call and without a gate.
   * @throws IsoproError REGISTRY_REFUSED, CONFLICT
   */
  async rollback({
    reason = '',
    expected,
    ...name
  }: AliasName & Pick<MoveRequest, 'reason' | 'expected'>): Promise<Moved> {
    const { slot, alias } = checkedName(name);
    const current = async () => (await this.read()).state.alias(slot, alias)?.current ?? null;
    const seen = expected === undefined ? await current() : expected;
    return this.write(async ({ reading: { state }, write }) => {
      const to = state.rollbackTarget(slot, alias);
      await this.requireBytesOf(state, to);
      await write([rollbackOf(slot, alias, seen, to, reason)]);
      return { alias: aliasText(slot, alias), from: seen, to };
    });
  }

  /** Withdraws an adapter from use. @throws IsoproError REGISTRY_REFUSED if an alias names it */
  async withdraw(id: string, reason: string): Promise<void> {
    await this.write(({ write }) =>
      write([{ kind: 'withdrawn', id: checked(sha256, id, 'id'), reason }]),
    );
  }

  /**
   * Checks the bytes of a version that is about to be used; the base model without an adapter has
   * none.
   * @throws IsoproError ADAPTER_CORRUPT
   */
  async requireBytesOf(state: RegistryState, id: string | null): Promise<void> {
    const entry = id === null ? undefined : state.entries.get(id);
    if (entry !== undefined) await this.requireBytes(entry.record);
  }

  /** Returns the file of an adapter's bytes and whether they are the published ones. */
  async bytesOf({
    adapter: { sha256: expected },
  }: AdapterRecord): Promise<{ readonly file: string; readonly bytes: KeptBytes }> {
    const file = this.paths.adapter(expected);
    if (statSync(file, { throwIfNoEntry: false })?.isFile() !== true)
      return { file, bytes: 'missing' };
    return { file, bytes: (await hashFile(file)) === expected ? 'sound' : 'changed' };
  }

  /**
   * Returns the file of an adapter.
   * @throws IsoproError ADAPTER_CORRUPT if its bytes are missing or do not match the record
   */
  async requireBytes(record: AdapterRecord): Promise<string> {
    const { file, bytes } = await this.bytesOf(record);
    if (bytes === 'sound') return file;
    throw new IsoproError('ADAPTER_CORRUPT', describeBytes(file, bytes), {
      remedy: 'Publish the same adapter again to restore its bytes.',
    });
  }
}
