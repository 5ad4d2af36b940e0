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
    'a key file of the witness | it is read; the public one is written again from the secret one',
  'witness.ticket':
    "the ticket in the witness's list | the same ticket is given for the run id in the manifest",
  'witness.head':
    "a head in the witness's list, which the log has not | resuming takes all heads of the witness into the log",
  'witness.final_head':
    "the final head in the witness's list, which the log has not | the log is finished with that head",
  'witness.nonce':
    'the nonce counts as told, the log has it not | the same one is told again; the submission is logged already',
  'run.folder': 'the run folder, empty, and its lock | the run begins in it',
  'run.manifest': 'manifest.json without a result | the run begins under the id in it',
  'run.replies':
    'finished replies in replies-N.jsonl, which no record names | they are sampled again',
  'run.adapter':
    'the exported adapter under its name, no submission of it in the log | it is exported again, to the same bytes',
  'run.result':
    'manifest.json with the result, the log not ended | the end is done again from the checkpoint `submitted`',
  'run.report': 'report.html | nothing is left to do',
  'file.temporary':
    'a complete file under a temporary name | the old file counts; what was under way is done again',
  'log.created':
    'log.sqlite with its tables and no record | nothing was acknowledged: the file is made again',
  'log.begun': 'the session start | the run begins after it; what followed is abandoned',
  'log.records':
    'records since the last checkpoint | they are abandoned, the iteration begins again',
  'log.head':
    'a signed head in the log, the checkpoint that it covers not written | the checkpoint before it is gone on with',
  'log.resumed': 'a resume record | the same checkpoint is gone on with once more',
  'log.nonce': 'the nonce in the log, the probe not | the probe is measured again',
  'log.ended': 'the session end, no final head | the end is signed',
  'log.final_head':
    'the final head in the log, which still has a WAL | the log is made one plain file',
  'log.plain': 'the finished log as one file, no report | the report is written',
  'checkpoint.partial':
    'a checkpoint under a temporary name, complete | it is removed, and the one before it gone on with',
  'checkpoint.complete':
    'a checkpoint, and older ones than are kept | it is gone on with; the older ones go with the next',
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
