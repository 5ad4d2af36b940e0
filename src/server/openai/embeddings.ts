/** POST /v1/embeddings. */
import { IsoproError } from '../../errors.js';
import { invalid, ofMember, unsupported } from '../failures.js';
import { isOne, promptsOf } from './completions.js';
import { openModel, type ServerContext } from './context.js';
import type { Asking } from './replying.js';
import type { EmbeddingBody } from './requests.js';

/** Encodes numbers as OpenAI's clients request them: f32 in little-endian order. */
function base64Of(row: Float32Array): string {
  const bytes = Buffer.alloc(4 * row.length);
  for (const [i, value] of row.entries()) bytes.writeFloatLE(value, 4 * i);
  return bytes.toString('base64');
}

/** @throws RequestFailure, IsoproError */
export async function embed(
  context: ServerContext,
  body: EmbeddingBody,
  asking: Asking,
): Promise<object> {
  using served = await openModel(context, body, asking);
  const { model, adapter } = served;
  if (body.dimensions !== undefined && body.dimensions !== model.info.embeddingSize)
    throw unsupported(
      'dimensions',
      `dimensions: the model's vectors have ${model.info.embeddingSize} numbers and cannot be shortened`,
    );
  const texts = promptsOf(body.input);
  if (texts.includes('')) throw invalid('input', 'input: an empty text has no embedding');
  const { leave } = await asking.queue.enter(asking.whose, asking.signal);
  try {
    const { rows, tokens } = await model.embed(texts, { adapter, signal: asking.signal });
    const count = tokens.reduce((sum, of) => sum + of, 0);
    return {
      object: 'list',
      model: body.model,
      data: await asking.slices.map(rows, (row, index) => ({
        object: 'embedding',
        index,
        embedding: body.encoding_format === 'base64' ? base64Of(row) : [...row],
      })),
      usage: { prompt_tokens: count, total_tokens: count },
    };
  } catch (error) {
    const [, place, what] =
      error instanceof IsoproError ? (/^texts\.(\d+): ([^]*)$/.exec(error.message) ?? []) : [];
    if (place === undefined || what === undefined) throw error;
    // the library's name for what is asked here
    const param = isOne(body.input) ? 'input' : `input[${place}]`;
    const { code, cause } = error as IsoproError;
    await ofMember(param, () => {
      throw new IsoproError(code, `${param}: ${what}`, { cause });
    });
    throw error;
  } finally {
    leave();
  }
}
