import path from 'node:path';
import { given } from '../../given.js';
import { verifyRun } from '../../log/local-trust.js';
import { encodePayload } from '../../log/payload.js';
import {
  checkExtensionProof,
  checkRecordProof,
  logFileOf,
  LogReader,
  type LogRecord,
} from '../../log/read.js';
import { publicKeyFile, readTrustedKey } from '../../log/witness-key.js';
import { findRunOrPath } from '../../lookup/runs.js';
import { namedRun } from '../../run-folder/manifest.js';
import { command, commandGroup, type Stated } from '../command.js';
import { number, required, text, toggle } from '../option.js';
import { logTrainingDataCommand } from './training-data.js';
import { print, printJson, printJsonLine, UsageError } from '../output.js';
import { Progress } from '../progress.js';
import type { LogStreams } from '../../log/streams.js';
import { RUN_STREAMS } from '../../run-folder/streams.js';
import { isTruthRun } from '../../truth-seeking/run/folder.js';
import { TRUTH_STREAMS } from '../../truth-seeking/run/records.js';
import { verifyTruthRun, type TruthVerification } from '../../truth-seeking/run/verify.js';

const EXIT_UNTERMINATED = 3;
const EXIT_DISAGREES = 4;
const EXIT: Record<TruthVerification['outcome'], number> = {
  ok: 0,
  open: 0,
  unterminated: EXIT_UNTERMINATED,
  tampered: EXIT_DISAGREES,
  truncated: EXIT_DISAGREES,
  equivocation: EXIT_DISAGREES,
};

const MEANING: Record<TruthVerification['outcome'], string> = {
  ok: 'the log is complete, and a final head of this key covers it',
  open: 'the run is complete, and a head of this key covers it; it can be measured again, so no head is final',
  unterminated: 'no contradiction, but the run has not ended: there is no final head',
  tampered: 'the log contradicts itself or a signed head',
  truncated: 'records that a signed head covers are missing',
  equivocation: 'two different histories of one size were signed',
};

/** Folder of a truth run; null for a run of the loop. @param target run folder or its log */
function truthFolderOf(target: string): string | null {
  const folder = path.dirname(logFileOf(target));
  return isTruthRun(folder) ? folder : null;
}

const streamsOf = (target: string): LogStreams =>
  truthFolderOf(target) === null ? RUN_STREAMS : TRUTH_STREAMS;

const run = required('run folder, the start of a run id in ./runs, or a log.sqlite file');
const key = text('public key file; default: the witness of this machine');

function printVerification(result: TruthVerification): void {
  const lines = [
    `${result.outcome}: ${MEANING[result.outcome]}`,
    `  run      ${result.runId ?? 'unknown'}`,
    `  records  ${result.records}, of which ${result.signedRecords} are covered by ${result.heads} signed ` +
      `head${result.heads === 1 ? '' : 's'}; ` +
      `resumed ${result.resumes} time${result.resumes === 1 ? '' : 's'}`,
    `  key      ${result.key.text}${result.key.ownedByThisUser ? ' (of this user, who could have signed any history)' : ''}`,
  ];
  if (result.signer === 'single-process')
    lines.push('  signer   single process: no witness stored its heads');
  if (result.root !== '') lines.push(`  root     ${result.root}`);
  if (result.disagreement !== null) {
    const { table, at, until, reason } = result.disagreement;
    lines.push(
      `  first    ${table === 'file' ? 'file' : `${table} ${at}${until === undefined ? '' : ` to ${until - 1}`}`}: ${reason}`,
    );
  }
  print(`${lines.join('\n')}\n`);
}

const verify = command({
  command: 'verify <run>',
  describe: 'Check every record, link, head and signature',
  positionals: { run },
  options: {
    key,
    head: {
      type: 'string',
      array: true,
      requiresArg: true,
      describe: 'file with a signed head that was stored elsewhere',
    },
  },
  epilogue:
    `Exit codes: 0 ok or open (a truth run, complete), ${EXIT_UNTERMINATED} unterminated, ` +
    `${EXIT_DISAGREES} tampered, truncated or equivocation, 1 the check could ` +
    `not be done.`,
  examples: [
    ['$0 log verify runs/3f2a --key witness.pub', 'with the public key that the runner published'],
  ],
  handler: async ({ run: named, key: keyFile, head, json }) => {
    const target = findRunOrPath(named);
    const truthFolder = truthFolderOf(target);
    using progress = new Progress({ label: 'verify', unit: 'records' });
    const trust = {
      ...given({ keyFile, headFiles: head }),
      onProgress: ({ done, total }: { done: number; total: number }) =>
        progress.update(done, { total }),
    };
    const result: TruthVerification =
      truthFolder === null
        ? await verifyRun(target, { streams: RUN_STREAMS, ...trust, ...namedRun(target) })
        : await verifyTruthRun(truthFolder, trust);
    progress.clear();
    if (json) printJson(result);
    else printVerification(result);
    process.exitCode = EXIT[result.outcome];
  },
});

const selection = {
  stream: {
    choices: [...new Set([RUN_STREAMS, TRUTH_STREAMS].flatMap(({ codes }) => Object.keys(codes)))],
    describe: 'only this stream',
  },
  from: number('number of the first record', 0),
  limit: number('max records'),
  abandoned: toggle('also records of interrupted iterations that were restarted'),
};

function forEachRecord(
  args: Stated<typeof selection> & { readonly run: string },
  visit: (record: LogRecord) => void,
): void {
  const whole = (name: string, value: number): number => {
    if (!Number.isSafeInteger(value) || value < 0)
      throw new UsageError(`--${name} takes a whole number`);
    return value;
  };
  const target = findRunOrPath(args.run);
  const streams = streamsOf(target);
  if (args.stream !== undefined && !Object.hasOwn(streams.codes, args.stream))
    throw new UsageError(`--stream: this log has ${Object.keys(streams.codes).join(', ')}`);
  const reader = new LogReader(logFileOf(target), streams);
  try {
    let left = args.limit === undefined ? Infinity : whole('limit', args.limit);
    const { stream } = args;
    if (left === 0) return;
    for (const record of reader.records({
      from: whole('from', args.from),
      abandoned: args.abandoned,
      ...given({ stream }),
    })) {
      visit(record);
      if (--left === 0) break;
    }
  } finally {
    reader.close();
  }
}

/**
 * The payload as it is stored: `#NaN`, `#123` for what JSON has no form for, `##…` for a string
 * that begins with `#`.
 */
const printable = (record: LogRecord): object => ({
  ...record,
  payload: JSON.parse(encodePayload(record.payload)) as unknown,
});

const show = command({
  command: 'show <run>',
  describe: 'Print records, one per line',
  positionals: { run },
  options: selection,
  examples: [['$0 log show runs/3f2a --stream decisions', 'every decision of the run']],
  handler: (args) =>
    forEachRecord(args, (record) => {
      if (args.json) return printJsonLine(printable(record));
      const time = new Date(record.timeUs / 1000).toISOString();
      const text = encodePayload(record.payload);
      const width =
        process.stdout.isTTY === true
          ? Math.max(20, (process.stdout.columns ?? 110) - 50)
          : Infinity;
      print(
        `${String(record.gseq).padStart(7)} ${time} ${record.stream.padEnd(11)} ` +
          `${text.length > width ? `${text.slice(0, width - 1)}…` : text}\n`,
      );
    }),
});

const exporting = command({
  command: 'export <run>',
  describe: 'Write records as JSONL',
  positionals: { run },
  options: selection,
  examples: [['$0 log export runs/3f2a > log.jsonl', 'the whole log']],
  handler: (args) => forEachRecord(args, (record) => printJsonLine(printable(record))),
});

const prove = command({
  command: 'prove <run>',
  describe:
    'Prove one record, or that a later head extends an earlier one, as a self-contained JSON document',
  positionals: { run },
  options: {
    key,
    record: { ...number('number of the record'), conflicts: ['from', 'to'] },
    from: { ...number('size of the earlier head'), implies: 'to' },
    to: { ...number('size of the later head'), implies: 'from' },
  },
  examples: [
    ['$0 log prove runs/3f2a --record 17 > proof.json', 'record 17 with its path to a signed head'],
  ],
  handler: ({ run: named, record, from, to, key: keyFile }) => {
    if (record === undefined && from === undefined)
      throw new UsageError('Give --record, or --from and --to.');
    const trusted = readTrustedKey(keyFile ?? publicKeyFile());
    const target = findRunOrPath(named);
    const streams = streamsOf(target);
    const reader = new LogReader(logFileOf(target), streams);
    try {
      if (record !== undefined) {
        const proof = reader.proveRecord(record);
        printJson({ ...proof, holds: checkRecordProof(proof, trusted, streams) });
      } else {
        const proof = reader.proveExtension(from as number, to as number);
        printJson({ ...proof, holds: checkExtensionProof(proof, trusted) });
      }
    } finally {
      reader.close();
    }
  },
});

export const logCommand = commandGroup({
  command: 'log',
  describe: "Verify, read and prove a run's signed log",
  commands: [verify, show, exporting, logTrainingDataCommand, prove],
});
