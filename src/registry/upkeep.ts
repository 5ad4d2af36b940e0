/**
 * Checks that a registry matches its log, repairs what can be repaired and deletes what is not
 * needed.
 */
import { existsSync, readdirSync, rmSync, statSync } from 'node:fs';
import path from 'node:path';
import { hashFile } from '../engine/adapter.js';
import { IsoproError, type ErrorCode } from '../errors.js';
import { hasEnded, readJson } from '../files.js';
import { isDrawnBy, isDrawOf, drawnSeed, parseDraw } from '../log/draw.js';
import { parseCheckpoint } from '../log/checkpoint.js';
import type { Verification } from '../log/verify.js';
import { pointerAgrees, writePointer } from './folder.js';
import { trialsOf } from './canary.js';
import {
  drawGate,
  judgeGate,
  judgeRollback,
  type GateTrials,
  type RollbackRequest,
} from './gates.js';
import { Looks } from './looks.js';
import { keyOf, readLedger, verifyLedger, type Reading } from './ledger.js';
import { nameOf } from './record.js';
import { describeBytes, type Registry } from './registry.js';
import { observedAgainst, policyOf, RegistryState, type Entry } from './state.js';

export interface Defect {
  readonly kind: 'log' | 'adapter' | 'evidence' | 'gate' | 'pointer' | 'unsigned';
  readonly message: string;
  /** True if `repair` fixes it. */
  readonly repairable: boolean;
}

export interface Validation {
  readonly records: number;
  readonly adapters: number;
  readonly aliases: number;
  readonly gates: number;
  readonly defects: readonly Defect[];
}

/** Error codes of a changed or damaged log. */
const DAMAGE: readonly string[] = [
  'LOG_TAMPERED',
  'LOG_UNREADABLE',
  'REGISTRY_INVALID',
  'CHECKPOINT_INVALID',
] satisfies ErrorCode[];

const digestOf = async (file: string): Promise<string | null> =>
  existsSync(file) ? hashFile(file) : null;

/**
 * Checks everything that can be checked: log, heads, bytes, evidence, and the seed and decision of
 * each gate.
 */
export async function validateRegistry(registry: Registry): Promise<Validation> {
  const { paths, options } = registry;
  const nothing = { records: 0, adapters: 0, aliases: 0, gates: 0 };
  let verification: Verification | null = null;
  let reading: Reading;
  try {
    verification = await verifyLedger(paths, options);
    reading = await readLedger(paths, options);
  } catch (error) {
    const isDamage = error instanceof IsoproError && DAMAGE.includes(error.code);
    if (!isDamage) throw error;
    return {
      ...nothing,
      records: verification?.records ?? 0,
      defects: [{ kind: 'log', message: error.message, repairable: false }],
    };
  }
  const { state, records } = reading;
  const defects: Defect[] = [];
  if (verification.records > records) {
    const message = `${verification.records - records} records at the end are not yet signed`;
    defects.push({ kind: 'unsigned', message, repairable: true });
  }
  for (const { id, record, collected } of state.entries.values()) {
    if (collected) continue;
    const { file, bytes } = await registry.bytesOf(record);
    if (bytes === 'sound') continue;
    const message = `${nameOf(record, id)}: ${describeBytes(path.basename(file), bytes)}`;
    defects.push({ kind: 'adapter', message, repairable: false });
  }
  defects.push(...(await gateDefects(registry, reading)), ...observationDefects(registry, reading));
  if (!pointerAgrees(paths.pointer, state.map()))
    defects.push({
      kind: 'pointer',
      message: `${path.basename(paths.pointer)} does not match the log`,
      repairable: true,
    });
  return {
    records,
    adapters: state.entries.size,
    aliases: state.aliases.length,
    gates: state.gates.length,
    defects,
  };
}

/**
 * Checks each gate again: its seed from the head and the witness's note, its decision from the kept
 * trials.
 */
async function gateDefects(
  { paths, options }: Registry,
  { runId, state, events, heads }: Reading,
): Promise<Defect[]> {
  const key = await keyOf(runId, options);
  const defects: Defect[] = [];
  const fail = (gate: number, message: string, as: Partial<Defect> = {}): void => {
    defects.push({ kind: 'gate', repairable: false, ...as, message: `gate ${gate}: ${message}` });
  };
  const drawn = new Set<number>();
  const looks = new Map<number, Looks>();
  const opened = new Map<number, number>();
  for (const { event, gseq } of events) {
    if (event.kind === 'gate_opened') opened.set(event.gate, gseq);
    if (event.kind === 'gate_drawn') {
      drawn.add(event.gate);
      const [head, draw] = [parseCheckpoint(event.head), parseDraw(event.draw)];
      const covering = heads.find(({ size }) => size > opened.get(event.gate)!);
      if (
        covering?.text !== head.text ||
        !isDrawOf(draw, head) ||
        !isDrawnBy(draw, key) ||
        drawnSeed(head, draw) !== event.seed
      )
        fail(
          event.gate,
          'its seed is not the one that the witness drew for the first signed head after it was opened',
        );
    }
    if (event.kind === 'gate_decided') {
      const gate = state.gates[event.gate - 1]!;
      const file = paths.trials(event.evidence);
      if ((await digestOf(file)) !== event.evidence) {
        fail(event.gate, `its trials (${path.basename(file)}) are missing or changed`, {
          kind: 'evidence',
        });
        continue;
      }
      const given = readJson(file) as GateTrials;
      const earlier = looks.get(event.gate) ?? new Looks();
      looks.set(event.gate, earlier);
      const broken = earlier.take(given);
      if (broken.length > 0)
        fail(
          event.gate,
          `the look in record ${gseq} does not contain all trials of the earlier looks unchanged: ${broken.join('; ')}`,
        );
      const again = judgeGate(gate, given).decision;
      if (again !== event.decision)
        fail(event.gate, `its trials give ${again}, but the log says ${event.decision}`);
    }
  }
  for (const { event, gseq } of events) {
    if (event.kind !== 'moved' || event.evidence === null) continue;
    const file = paths.trials(event.evidence);
    const isKept = (await digestOf(file)) === event.evidence;
    if (
      isKept &&
      judgeRollback(event.from, event.to, readJson(file) as RollbackRequest).decision === 'rollback'
    )
      continue;
    const what = isKept ? 'do not support it' : 'are missing or changed';
    defects.push({
      kind: 'evidence',
      message: `the trials of the rollback in record ${gseq} (${path.basename(file)}) ${what}`,
      repairable: false,
    });
  }
  for (const gate of opened.keys())
    if (!drawn.has(gate)) fail(gate, 'its seed was never drawn', { repairable: true });
  return defects;
}

/** Checks the observations of versions in use again, each with everything posted before it. */
function observationDefects(registry: Registry, { events }: Reading): Defect[] {
  const state = new RegistryState();
  const defects: Defect[] = [];
  for (const { event, gseq, timeUs } of events) {
    const named = event.kind === 'observed' ? state.alias(event.slot, event.alias) : null;
    state.apply(event, timeUs);
    if (event.kind !== 'observed') continue;
    const { id, against, evidence } = event;
    const fail = (what: string): void => {
      defects.push({ kind: 'evidence', message: `record ${gseq}: ${what}`, repairable: false });
    };
    try {
      const earlier = observedAgainst(named!, against)?.evidence ?? [];
      const trials = trialsOf(registry, [...earlier, evidence]);
      const { decision, blocks } = judgeRollback(id, against, { trials, policy: policyOf(named!) });
      if (decision !== event.decision || blocks !== event.blocks)
        fail(
          `its trials give ${decision} after ${blocks} problems, but the log says ${event.decision} after ${event.blocks}`,
        );
    } catch (error) {
      if (!(error instanceof IsoproError)) throw error;
      fail(error.message);
    }
  }
  return defects;
}

/**
 * Signs records that a crash left unsigned, draws missing seeds and rewrites the pointer. Manual
 * changes stay.
 * @returns the defects that were fixed
 */
export async function repairRegistry(registry: Registry): Promise<readonly Defect[]> {
  const { defects } = await validateRegistry(registry);
  const damage = defects.find(({ kind }) => kind === 'log');
  if (damage !== undefined) throw new IsoproError('LOG_TAMPERED', damage.message);
  const repairable = defects.filter((defect) => defect.repairable);
  if (repairable.length === 0) return [];
  await registry.write(async ({ write, reading: { state }, log }) => {
    if (repairable.some(({ kind }) => kind === 'unsigned')) await write([]);
    else await writePointer(registry.paths.pointer, log.size, state.map());
  });
  const { state } = await registry.read();
  for (const { gate, seed } of state.gates) if (seed === null) await drawGate(registry, gate);
  return repairable;
}

export interface Collected {
  /** Files that no record knows. */
  readonly files: readonly string[];
  /** Ids whose bytes were deleted because nothing names them. */
  readonly ids: readonly string[];
  readonly bytes: number;
}

/**
 * Deletes files that no record knows and, with `unused`, the bytes of adapters that no alias names
 * and no rollback would restore. Their records stay.
 */
export async function collectGarbage(
  registry: Registry,
  { unused = false, dryRun = false } = {},
): Promise<Collected> {
  const { paths } = registry;
  return registry.write(async ({ reading: { state, events }, write }) => {
    const inUse = state.inUse();
    const there = [...state.entries.values()].filter(({ collected }) => !collected);
    const gone = there.filter(({ id }) => unused && !inUse.has(id));
    const ids = gone.map(({ id }) => id);
    if (ids.length > 0 && !dryRun) await write([{ kind: 'collected', ids }]);
    const fileOf = ({ record }: Entry): string =>
      path.basename(paths.adapter(record.adapter.sha256));
    const kept = new Set([
      ...there.filter((entry) => !gone.includes(entry)).map(fileOf),
      ...events.flatMap(({ event }) =>
        'evidence' in event && event.evidence !== null
          ? [path.basename(paths.trials(event.evidence))]
          : [],
      ),
    ]);
    const collectable = new Set(gone.map(fileOf));
    const files: string[] = [];
    let bytes = 0;
    for (const folder of [paths.adapters, paths.evidence]) {
      for (const name of readdirSync(folder)) {
        const pid = /\.(\d+)\.\d+\.partial$/.exec(name)?.[1];
        if (kept.has(name) || (pid !== undefined && !hasEnded(Number(pid)))) continue;
        const file = path.join(folder, name);
        bytes += statSync(file).size;
        if (!collectable.has(name)) files.push(name);
        if (!dryRun) rmSync(file, { force: true });
      }
    }
    return { files, ids, bytes };
  });
}
