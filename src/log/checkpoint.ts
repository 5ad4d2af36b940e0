import { IsoproError } from '../errors.js';
import { decodeBase64, parseNote, type SignedNote } from './signed-note.js';

/**
 * A signed tree head as in https://c2sp.org/tlog-checkpoint: origin, size, root in base64, then
 * extension lines of ours: `final` on a run's last head, `revealed <size> <nonce in hex>` once the
 * ticket's nonce is out, with the size of the head that was signed before it was; of a log whose
 * records say a state, `time <microseconds>` by the signer's clock and `state <SHA-256 in base64>`.
 */
export interface Checkpoint {
  readonly runId: string;
  readonly size: number;
  /** 64 hex digits. */
  readonly root: string;
  readonly final: boolean;
  readonly revealed: { readonly size: number; readonly nonce: string } | null;
  /**
   * Time of signing in microseconds since 1970, and the digest (64 hex digits) of the state that
   * the records lead to; absent if the log keeps no state.
   */
  readonly stated?: { readonly timeUs: number; readonly state: string };
}

export interface SignedCheckpoint extends Checkpoint {
  /** The whole note. */
  readonly text: string;
  readonly note: SignedNote;
}

const ORIGIN_PREFIX = 'isopro-native/run/';

/** The origin of a run's checkpoints, and the name under which its witness signs them. */
export const originOf = (runId: string): string => `${ORIGIN_PREFIX}${runId}`;

export const isRunId = (text: string): boolean => /^[0-9a-f]{32}$/.test(text);

/** Returns the text that is signed. */
export function checkpointText(checkpoint: Checkpoint): string {
  const lines = [
    originOf(checkpoint.runId),
    String(checkpoint.size),
    Buffer.from(checkpoint.root, 'hex').toString('base64'),
  ];
  if (checkpoint.stated !== undefined) {
    const { timeUs, state } = checkpoint.stated;
    lines.push(`time ${timeUs}`, `state ${Buffer.from(state, 'hex').toString('base64')}`);
  }
  if (checkpoint.revealed !== null)
    lines.push(`revealed ${checkpoint.revealed.size} ${checkpoint.revealed.nonce}`);
  if (checkpoint.final) lines.push('final');
  return `${lines.join('\n')}\n`;
}

function parseSize(text: string | undefined): number | null {
  if (text === undefined || !/^(0|[1-9][0-9]{0,15})$/.test(text)) return null;
  const size = Number(text);
  return Number.isSafeInteger(size) ? size : null;
}

/**
 * Reads a checkpoint; its signature is not checked here.
 * @throws IsoproError CHECKPOINT_INVALID for any other text, also one that says the same in another
 *   way
 */
export function parseCheckpoint(text: string): SignedCheckpoint {
  const note = parseNote(text);
  const lines = note.text.slice(0, -1).split('\n');
  const refuse = (reason: string): never => {
    throw new IsoproError('CHECKPOINT_INVALID', `not a checkpoint of a run: ${reason}`);
  };
  const origin = lines[0] as string;
  const runId = origin.slice(ORIGIN_PREFIX.length);
  if (!origin.startsWith(ORIGIN_PREFIX) || !isRunId(runId))
    refuse('its first line does not name a run');
  const size = parseSize(lines[1]) ?? refuse('its second line is not a size');
  const root = decodeBase64(lines[2] ?? '');
  if (root?.length !== 32) return refuse('its third line is not a SHA-256 in base64');
  let revealed: Checkpoint['revealed'] = null;
  let final = false;
  let stated: Pick<Checkpoint, 'stated'> = {};
  const extensions = lines.slice(3);
  if (extensions[0]?.startsWith('time ')) {
    const timeUs =
      parseSize(extensions[0].slice('time '.length)) ?? refuse('its time is not valid');
    const state = decodeBase64(/^state (\S+)$/.exec(extensions[1] ?? '')?.[1] ?? '');
    if (state?.length !== 32) return refuse('its state is not a SHA-256 in base64');
    stated = { stated: { timeUs, state: state.toString('hex') } };
    extensions.splice(0, 2);
  }
  for (const line of extensions) {
    const match = /^revealed (\S+) ([0-9a-f]{64})$/.exec(line);
    if (line === 'final' && !final) final = true;
    else if (match !== null && revealed === null)
      revealed = {
        size:
          parseSize(match[1]) ?? refuse('the size at which its nonce was revealed is not valid'),
        nonce: match[2] as string,
      };
    else refuse('it has an unknown extension line');
  }
  const checkpoint = { runId, size, root: root.toString('hex'), final, revealed, ...stated };
  if (checkpointText(checkpoint) !== note.text) refuse('its lines are out of order');
  return { ...checkpoint, text, note };
}
