/** Files as OpenAI has them: what a key sends for its own jobs, and the figures of those. */
import type { FastifyInstance } from 'fastify';
import type { ZodTypeProvider } from 'fastify-type-provider-zod';
import { createReadStream } from 'node:fs';
import { z } from 'zod';
import type { JobQueue } from '../../jobs/queue/queue.js';
import type { Upload } from '../../jobs/queue/store.js';
import { invalid, RequestFailure, unsupported } from '../failures.js';
import { removeWithDerived } from './derived-files.js';
import { pageOf, pageQuery } from './pages.js';
import { resultsOf } from './results.js';

const TRAIN = { config: { scope: 'train' } } as const;
const LARGEST = 64 * 2 ** 20;
/** A form has a file, a purpose and a few more; each part costs more than its bytes to read. */
const MOST_PARTS = 16;

export const noFile = (id: string): RequestFailure =>
  new RequestFailure(404, 'not_found_error', `there is no file ${JSON.stringify(id.slice(0, 100))}`, { code: 'file_not_found' });

const seconds = (iso: string): number => Math.floor(Date.parse(iso) / 1000);

const fileObject = ({ id, bytes, createdAt, filename, purpose }: Omit<Upload, 'owner' | 'file'>) => ({
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
const listQuery = pageQuery.extend({ purpose: z.string().max(100).optional(), order: z.enum(['asc', 'desc']).default('desc') });

/** The parts of a form. @throws RequestFailure 400 */
async function readForm(contentType: string, body: Buffer): Promise<FormData> {
  const boundary = /boundary=(?:"([^"]{1,70})"|([^\s;]{1,70}))/i.exec(contentType);
  const mark = `--${boundary?.[1] ?? boundary?.[2] ?? ''}`;
  let parts = 0;
  for (let at = body.indexOf(mark); at >= 0 && parts <= MOST_PARTS; at = body.indexOf(mark, at + mark.length)) parts++;
  if (boundary === null || parts > MOST_PARTS)
    throw invalid('', `the form has no boundary, or more than ${MOST_PARTS} parts`, 'invalid_form');
  try {
    return await new Response(new Uint8Array(body), { headers: { 'content-type': contentType } }).formData();
  } catch {
    throw invalid('', 'the body is no multipart/form-data', 'invalid_form');
  }
}

export function addFileRoutes(instance: FastifyInstance, opened: () => JobQueue): void {
  const app = instance.withTypeProvider<ZodTypeProvider>();

  // Its own room: no other path takes a form.
  void app.register(async (room) => {
    room.addContentTypeParser('multipart/form-data', { parseAs: 'buffer', bodyLimit: LARGEST }, (_, body, done) => done(null, body));
    room.post('/v1/files', { ...TRAIN, bodyLimit: LARGEST }, async ({ body, headers, caller }) => {
      const contentType = headers['content-type'] ?? '';
      if (!Buffer.isBuffer(body)) throw invalid('', 'send a file as multipart/form-data', 'invalid_form');
      const form = await readForm(contentType, body);
      for (const name of form.keys()) if (name !== 'file' && name !== 'purpose') throw unsupported(name, `${name} is not taken here`);
      const [file, purpose] = [form.get('file'), form.get('purpose')];
      if (file === null || typeof file === 'string') throw invalid('file', 'file: a part with a file name is wanted');
      if (purpose !== 'fine-tune') throw unsupported('purpose', 'purpose: files are for fine-tune here');
      const bytes = new Uint8Array(await file.arrayBuffer());
      return fileObject(await opened().uploads.add(caller.name, { filename: file.name.slice(0, 255), purpose, bytes }));
    });
  });

  app.get('/v1/files', { ...TRAIN, schema: { querystring: listQuery } }, ({ query: { purpose, order, ...page }, caller }) => {
    const files = opened()
      .uploads.list(caller.name)
      .filter((file) => purpose === undefined || file.purpose === purpose);
    return pageOf((order === 'asc' ? files.reverse() : files).map(fileObject), page);
  });

  app.get('/v1/files/:id', { ...TRAIN, schema: { params } }, ({ params: { id }, caller }) => {
    const queue = opened();
    const found = queue.uploads.get(caller.name, id) ?? resultsOf(queue, caller, id);
    if (found === undefined) throw noFile(id);
    return fileObject(found);
  });

  app.get('/v1/files/:id/content', { ...TRAIN, schema: { params } }, ({ params: { id }, caller }, reply) => {
    const queue = opened();
    const path = queue.uploads.pathOf(caller.name, id);
    const results = path === null ? resultsOf(queue, caller, id) : undefined;
    if (path === null && results === undefined) throw noFile(id);
    // a page that is shown it shows it as text
    reply.header('content-disposition', 'attachment').type('application/octet-stream');
    return reply.send(path === null ? results!.text : createReadStream(path));
  });

  app.delete('/v1/files/:id', { ...TRAIN, schema: { params } }, ({ params: { id }, caller }) => {
    if (!removeWithDerived(opened(), caller.name, id)) throw noFile(id);
    return { id, object: 'file', deleted: true };
  });
}
