import { publishFile, publishRun } from '../../operations/publish.js';
import { findAdapter } from '../../lookup/adapters.js';
import type { Published, Registry } from '../../registry/registry.js';
import { aliasText, CHAMPION } from '../../registry/names.js';
import { print, printJson, UsageError } from '../output.js';
import {
  aliasOf,
  aliasOption,
  clockOption,
  registryOf,
  registryOption,
} from '../registry-flags.js';
import { command } from '../command.js';
import { required, text } from '../option.js';

export const adaptersPublishCommand = command({
  command: 'publish <adapter>',
  describe: 'Publish an adapter to the registry permanently',
  positionals: { adapter: required('run (folder or start of its id), or a GGUF file') },
  options: {
    model: text('base model of a GGUF adapter: a file, or a cached alias or URI'),
    as: {
      ...aliasOption,
      describe: 'also set this alias, such as sql@challenger; champion is moved by promote only',
    },
    parent: text('id of the published adapter that training continued from'),
    registry: registryOption,
    signer: {
      choices: ['witness', 'single-process'] as const,
      describe: 'signer of a new registry; single-process proves nothing to others',
      defaultDescription: 'witness',
    },
    'accept-clock': clockOption,
  },
  epilogue:
    'The id is the SHA-256 of bytes, base, renderer and settings, so publishing the same adapter again changes nothing.',
  examples: [
    ['$0 adapters publish 3f2a', 'publish the adapter of a run'],
    [
      '$0 adapters publish mine.gguf --model qwen2.5-3b --as sql@challenger',
      'publish a file under an alias',
    ],
  ],
  handler: async ({ adapter, model, as, parent, json, ...flags }) => {
    const place = as === undefined ? null : aliasOf(as);
    if (place?.alias === CHAMPION)
      throw new UsageError('--as cannot be champion: use `adapters promote`.');
    const registry = registryOf(flags);
    const { file, run } = findAdapter(adapter);
    if (run === null && model === undefined)
      throw new UsageError('Give the base model with --model, or publish a run.');
    if (run !== null && model !== undefined)
      throw new UsageError('A run records its base model: leave out --model.');
    const options = parent === undefined ? {} : { parent };
    const published =
      run === null
        ? await publishFile(registry, file, { model: model!, ...options })
        : await publishRun(registry, run.folder, options);
    if (place !== null) await nameOnce(registry, published, place);
    if (json)
      return printJson({
        ...published,
        alias: place === null ? null : aliasText(place.slot, place.alias),
      });
    const { name, id, isNew } = published;
    const named = place === null ? '' : ` as ${aliasText(place.slot, place.alias)}`;
    print(`${name}${named}${isNew ? '' : ' (already published)'}\nid ${id}\n`);
  },
});

/** Publishing again may name again. */
async function nameOnce(
  registry: Registry,
  { id }: Published,
  { slot, alias }: ReturnType<typeof aliasOf>,
): Promise<void> {
  const { state } = await registry.read();
  if (state.alias(slot, alias)?.current !== id)
    await registry.move({ slot, alias, id, reason: 'published' });
}
