/**
 * The thread that reads rows of callers: a file of theirs holds up no reply, and what is too large
 * for it ends it alone.
 */
import { parentPort, workerData } from 'node:worker_threads';
import { writeFileAtomically } from '../../engine/atomic-file.js';
import { IsoproError } from '../../errors.js';
import { parseLine, readLines } from '../../files.js';
import { tooMuch } from '../../json-shape.js';
import { inForm } from './row-forms.js';
import type { RowsAnswer, RowsTask } from './rows.js';

const { file, form, out, mostBytes } = workerData as RowsTask;

class WrongLine extends Error {}

async function* rows(): AsyncGenerator<Uint8Array, void> {
  const read = inForm(form);
  let [number, bytes] = [0, 0];
  for await (const line of readLines(file)) {
    number++;
    if (line.trim() === '') continue;
    let written: Buffer;
    try {
      const wrong = tooMuch(line);
      if (wrong !== null) throw new Error(`it ${wrong}`);
      written = Buffer.from(`${JSON.stringify(read(parseLine(line, number)))}\n`);
    } catch (error) {
      const { message } = error as Error;
      throw new WrongLine(
        message.startsWith(`line ${number} `) ? message : `line ${number}: ${message}`,
      );
    }
    bytes += written.length;
    if (bytes > mostBytes)
      throw new IsoproError(
        'WRITE_FAILED',
        `the copy of the file exceeds the ${mostBytes} bytes that are left`,
      );
    yield written;
  }
}

async function answer(): Promise<RowsAnswer> {
  try {
    if (out !== null) await writeFileAtomically(out, rows());
    else for await (const _ of rows());
    return {};
  } catch (error) {
    if (error instanceof WrongLine) return { wrong: error.message };
    if (!(error instanceof IsoproError)) return { defect: (error as Error).stack ?? String(error) };
    return error.code === 'INVALID_ARGUMENT'
      ? { wrong: error.message }
      : { failure: { code: error.code, message: error.message } };
  }
}

parentPort!.postMessage(await answer());
