/**
 * What a run leaves on the disk, state by state: each gap between two of them is a place where the
 * power may go.
 */
import { channel } from 'node:diagnostics_channel';

/**
 * Every durable state of run, log, witness and checkpoint, by what is on the disk from then on, and
 * what the same command does when nothing later is there. test/loop/gaps.test.ts ends run and
 * witness after each of them.
 */
export const DURABLE_STATES = {
  'witness.key':
    'a key file of the witness | it is read; the public key is written again from the secret key',
  'witness.ticket':
    "the ticket in the witness's list | the witness returns the same ticket for the run id in the manifest",
  'witness.head':
    "a head in the witness's list that the log lacks | resuming copies all heads of the witness into the log",
  'witness.final_head':
    "the final head in the witness's list that the log lacks | the log is finished with that head",
  'witness.nonce':
    'the nonce counts as revealed, but the log lacks it | the same nonce is revealed again; the submission is already in the log',
  'run.folder': 'the empty run folder and its lock | the run starts in it',
  'run.manifest': 'manifest.json without a result | the run starts under the id in it',
  'run.replies':
    'finished replies in replies-N.jsonl that no record names | they are sampled again',
  'run.adapter':
    'the exported adapter, but no submission of it in the log | it is exported again, with the same bytes',
  'run.result':
    'manifest.json with the result, but no end of the log | the run ends again from the checkpoint `submitted`',
  'run.report': 'report.html | nothing remains to be done',
  'file.temporary':
    'a complete file under a temporary name | the old file is used; the interrupted step is repeated',
  'log.created':
    'log.sqlite with its tables and no records | nothing was acknowledged: the file is created again',
  'log.begun': 'the session start | the run starts after it; later records are abandoned',
  'log.records':
    'records since the last checkpoint | they are abandoned and the iteration restarts',
  'log.head':
    'a signed head in the log, but not the checkpoint that it covers | the run continues from the checkpoint before',
  'log.resumed': 'a resume record | the run continues from the same checkpoint again',
  'log.nonce': 'the nonce in the log, but not the probe | the probe is measured again',
  'log.ended': 'the session end without a final head | the end is signed',
  'log.final_head': 'the final head in a log that still has a WAL | the log becomes one plain file',
  'log.plain': 'the finished log as one file, without a report | the report is written',
  'checkpoint.partial':
    'a complete checkpoint under a temporary name | it is removed, and the run continues from the one before',
  'checkpoint.complete':
    'a checkpoint, and more older ones than are kept | the run continues from it; the next checkpoint removes the older ones',
} as const satisfies Record<string, string>;

export type DurableState = keyof typeof DURABLE_STATES;

/**
 * Carries `DurableState`s, synchronously. Nobody listens but a test, and what nobody listens to
 * costs nothing.
 */
export const DURABLE_CHANNEL = 'isopro-native:durable';

const states = channel(DURABLE_CHANNEL);

/** To be called as soon as the state would survive the end of the process. */
export const durable = (state: DurableState): void => states.publish(state);
