/**
 * The body of a request as JSON: of well-formed UTF-8, no deeper than any use, and without the
 * names that reach into prototypes.
 */
import type { FastifyInstance } from 'fastify';
import { tooMuch } from '../json-shape.js';
import { invalid, RequestFailure } from './failures.js';

const decoder = new TextDecoder('utf-8', { fatal: true });

/** Reason why a text is not JSON, in the words of the parser, which fastify does not pass on. */
function whyNot(text: string): string {
  try {
    JSON.parse(text);
    return 'the body has a member named __proto__, or a constructor with a prototype';
  } catch (error) {
    return `the body is not JSON: ${(error as Error).message}`;
  }
}

interface Seeded {
  seed?: unknown;
  sampling_params?: Seeded;
}

/** A seed may have more digits than a number holds: it is read by them. */
function withSeedByDigits(value: unknown, text: string): unknown {
  const quoted = text.replace(/("seed"\s*:\s*)(-?\d{16,30})(?=\s*[,}])/g, '$1"$2"');
  if (quoted === text) return value;
  const read = (given: Seeded | undefined, digits: Seeded | undefined): void => {
    if (typeof given?.seed === 'number' && typeof digits?.seed === 'string')
      given.seed = BigInt(digits.seed);
  };
  const [body, digits] = [value as Seeded, JSON.parse(quoted) as Seeded];
  read(body, digits);
  read(body.sampling_params, digits.sampling_params);
  return body;
}

/**
 * Takes bodies of application/json and of no other type: a page of another site cannot send those
 * unasked.
 */
export function takeJsonOnly(app: FastifyInstance): void {
  app.removeAllContentTypeParsers();
  const parse = app.getDefaultJsonParser('error', 'error');
  app.addContentTypeParser('application/json', { parseAs: 'buffer' }, (request, body, done) => {
    const { 'content-encoding': encoding = 'identity' } = request.headers;
    if (encoding !== 'identity')
      return done(
        new RequestFailure(
          415,
          'compressed request bodies are not supported; send the body uncompressed',
          'unsupported_media_type',
        ),
      );
    // of a call without one; a schema that wants one says so
    if (body.length === 0) return done(null, undefined);
    let text: string;
    try {
      text = decoder.decode(body as Buffer);
    } catch {
      return done(invalid('', 'the body is not UTF-8', 'invalid_json'));
    }
    const wrong = tooMuch(text);
    if (wrong !== null) return done(invalid('', `the body ${wrong}`, 'invalid_json'));
    return parse(request, text, (error, value) => {
      if (error === null) return done(null, withSeedByDigits(value, text));
      return done(invalid('', whyNot(text), 'invalid_json'));
    });
  });
}
