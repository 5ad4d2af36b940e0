/**
 * Shared parts of all kinds of record in a run's log: how a record is written to its stream and
 * read back.
 */
import { z } from 'zod';
import { IsoproError } from '../errors.js';
import type { LogPayload } from '../log/payload.js';
import type { LogRecord } from '../log/read.js';
import type { NewRunRecord, RunStream } from './streams.js';

export const sha256 = z.string().regex(/^[0-9a-f]{64}$/);
export const iteration = z.number().int().min(0);
/** JSON has no NaN and no infinity; the log's form has. */
export const number = z.number().or(z.nan()).or(z.literal(Infinity)).or(z.literal(-Infinity));

type RecordForm = z.ZodObject<{ kind: z.ZodLiteral<string> }>;

/**
 * Returns a writer of a kind of record in its stream. It leaves out members that the form does not
 * have.
 */
export const recordOf =
  <F extends RecordForm>(stream: RunStream, form: F) =>
  (value: Omit<z.input<F>, 'kind'>): NewRunRecord => {
    const payload = form.parse({ ...value, kind: form.shape.kind.value });
    return { stream, payload: payload as unknown as LogPayload };
  };

const unreadable = (what: string): never => {
  throw new IsoproError('LOG_UNREADABLE', what);
};

/**
 * Reads the payload of a record in a form of its kind.
 * @param refuse throws for a record that does not have that form
 * @throws IsoproError LOG_UNREADABLE by default
 */
export function readRecord<T>(
  form: z.ZodType<T>,
  { gseq, payload }: Pick<LogRecord, 'gseq' | 'payload'>,
  refuse: (what: string) => never = unreadable,
): T {
  const parsed = form.safeParse(payload);
  return parsed.success
    ? parsed.data
    : refuse(
        `record ${gseq} is not a valid ${payload.kind} record: ${z.prettifyError(parsed.error)}`,
      );
}
