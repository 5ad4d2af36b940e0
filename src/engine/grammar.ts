import { IsoproError } from '../errors.js';

/** What a JSON Schema grammar of node-llama-cpp may put after the document before it ends. */
export const JSON_GRAMMAR_END = '\n'.repeat(4);

/**
 * The GBNF grammar of a JSON Schema, made by node-llama-cpp's LlamaJsonSchemaGrammar.
 * @throws IsoproError GRAMMAR_INVALID where the schema uses what node-llama-cpp cannot express
 */
export async function grammarOfJsonSchema(schema: object): Promise<string> {
  const { getLlama, LlamaJsonSchemaGrammar, LlamaLogLevel } = await import('node-llama-cpp');
  const llama = await getLlama({
    gpu: process.platform === 'darwin' && process.arch === 'arm64' ? 'metal' : false,
    build: 'never',
    progressLogs: false,
    logLevel: LlamaLogLevel.disabled,
  });
  try {
    // node-llama-cpp checks at run time what its type describes.
    return new LlamaJsonSchemaGrammar(llama, schema as ConstructorParameters<typeof LlamaJsonSchemaGrammar>[1]).grammar;
  } catch (cause) {
    throw new IsoproError('GRAMMAR_INVALID', `the JSON Schema has no grammar: ${(cause as Error).message}`, { cause });
  }
}
