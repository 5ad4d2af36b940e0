/** Files as OpenAI has them: what a key sends for its own jobs, and the figures of those. */
import multipart from '@fastify/multipart';
import type { FastifyError, FastifyInstance, FastifyRequest } from 'fastify';
import type { ZodTypeProvider } from 'fastify-type-provider-zod';
import { createReadStream } from 'node:fs';
import { z } from 'zod';
import type { JobQueue } from '../../jobs/queue.js';
import type { Upload } from '../../jobs/store.js';
import { invalid, RequestFailure, unsupported } from '../failures.js';
import { removeWithDerived } from './derived-files.js';
import { pageOf, pageQuery } from './pages.js';
import { resultsOf } from './results.js';

const TRAIN = { config: { scope: 'train' } } as const;
const PURPOSE = 'fine-tune';
const LARGEST = 64 * 2 ** 20;
const LONGEST_FILE_NAME = 255;
const LONGEST_FIELD_NAME = 100;
/** A form has a file and a purpose. */
const LIMITS = {
  files: 1,
  fileSize: LARGEST,
  fields: 8,
  parts: 8,
  fieldSize: 1000,
  headerPairs: 32,
};

export const noFile = (id: string): RequestFailure =>
  new RequestFailure(404, `there is no file ${JSON.stringify(id.slice(0, 100))}`, 'file_not_found');

const seconds = (iso: string): number => Math.floor(Date.parse(iso) / 1000);

const fileObject = ({
  id,
  bytes,
  createdAt,
  filename,
  purpose,
}: Omit<Upload, 'owner' | 'file'>) => ({
  id,
  object: 'file',
  bytes,
  created_at: seconds(createdAt),
  filename,
  purpose,
  status: 'processed',
  status_details: null,
});

const params = z.object({ id: z.string().max(100) });
const listQuery = pageQuery.extend({
  purpose: z.string().max(100).optional(),
  order: z.enum(['asc', 'desc']).default('desc'),
});

interface Form {
  readonly filename: string;
  readonly bytes: Buffer;
}

/**
 * Reads a form as it arrives. It is read to its end even if a part is refused, since a client that
 * still sends does not read the answer.
 * @throws RequestFailure 400, 413
 */
async function readForm(request: FastifyRequest): Promise<Form> {
  let [form, purpose, refusal]: [Form | undefined, unknown, RequestFailure | undefined] = [
    undefined,
    undefined,
    undefined,
  ];
  try {
    for await (const part of request.parts()) {
      const fieldname = ((part.fieldname as string | undefined) ?? '').slice(0, LONGEST_FIELD_NAME);
      if (fieldname === 'file' && part.type === 'file')
        form = {
          filename: (part.filename ?? '').slice(0, LONGEST_FILE_NAME),
          bytes: await part.toBuffer(),
        };
      else if (part.type === 'file') part.file.resume();
      else if (fieldname === 'purpose') purpose = part.value;
      if (fieldname !== 'file' && fieldname !== 'purpose')
        refusal ??= unsupported(
          fieldname,
          `${fieldname === '' ? 'a part without a name' : fieldname} is not supported`,
        );
    }
  } catch (error) {
    if (refusal !== undefined) throw refusal;
    const { code, message } = error as Partial<FastifyError>;
    if (code === 'FST_REQ_FILE_TOO_LARGE')
      throw new RequestFailure(413, `file: has more than ${LARGEST} bytes`, 'body_too_large', {
        param: 'file',
      });
    throw invalid('', `the form cannot be read: ${message}`, 'invalid_form');
  }
  if (refusal !== undefined) throw refusal;
  if (form === undefined) throw invalid('file', 'file: send a part with a file name');
  if (purpose !== PURPOSE) throw unsupported('purpose', `purpose: only ${PURPOSE} is supported`);
  return form;
}

export function addFileRoutes(instance: FastifyInstance, opened: () => JobQueue): void {
  const app = instance.withTypeProvider<ZodTypeProvider>();

  // Its own room: no other path takes a form.
  void app.register(async (room) => {
    await room.register(multipart, { limits: LIMITS });
    room.post('/v1/files', TRAIN, async (request) => {
      if (!request.isMultipart())
        throw invalid('', 'send a file as multipart/form-data', 'invalid_form');
      const { filename, bytes } = await readForm(request);
      return fileObject(
        await opened().uploads.add(request.caller.name, { filename, purpose: PURPOSE, bytes }),
      );
    });
  });

  app.get(
    '/v1/files',
    { ...TRAIN, schema: { querystring: listQuery } },
    ({ query: { purpose, order, ...page }, caller }) => {
      const files = opened()
        .uploads.list(caller.name)
        .filter((file) => purpose === undefined || file.purpose === purpose);
      return pageOf((order === 'asc' ? files.reverse() : files).map(fileObject), page);
    },
  );

  app.get('/v1/files/:id', { ...TRAIN, schema: { params } }, ({ params: { id }, caller }) => {
    const queue = opened();
    const found = queue.uploads.get(caller.name, id) ?? resultsOf(queue, caller, id);
    if (found === undefined) throw noFile(id);
    return fileObject(found);
  });

  app.get(
    '/v1/files/:id/content',
    { ...TRAIN, schema: { params } },
    ({ params: { id }, caller }, reply) => {
      const queue = opened();
      const path = queue.uploads.pathOf(caller.name, id);
      const results = path === null ? resultsOf(queue, caller, id) : undefined;
      if (path === null && results === undefined) throw noFile(id);
      // a page that is shown it shows it as text
      reply.header('content-disposition', 'attachment').type('application/octet-stream');
      return reply.send(path === null ? results!.text : createReadStream(path));
    },
  );

  app.delete('/v1/files/:id', { ...TRAIN, schema: { params } }, ({ params: { id }, caller }) => {
    if (!removeWithDerived(opened(), caller.name, id)) throw noFile(id);
    return { id, object: 'file', deleted: true };
  });
}
