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
  describe: 'Put an adapter into the registry for good',
  positionals: { adapter: required('a run (folder or beginning of its id), or a GGUF') },
  options: {
    model: text('the base of a GGUF: path, or an alias or URI that is in the cache'),
    as: {
      ...aliasOption,
      describe: 'give it this alias too, such as sql@challenger; not champion, which promote moves',
    },
    parent: text('id of the published adapter that training went on from'),
    registry: registryOption,
    signer: {
      choices: ['witness', 'single-process'] as const,
      describe: 'who vouches for a new registry; single-process proves nothing to others',
      defaultDescription: 'witness',
    },
    'accept-clock': clockOption,
  },
  epilogue:
    'Its id is the SHA-256 of its bytes, its base, its renderer and its settings: the same adapter again changes nothing.',
  examples: [
    ['$0 adapters publish 3f2a', 'what a run submitted'],
    [
      '$0 adapters publish mine.gguf --model qwen2.5-3b --as sql@challenger',
      'a file, under a name',
    ],
  ],
  handler: async ({ adapter, model, as, parent, json, ...flags }) => {
    const place = as === undefined ? null : aliasOf(as);
    if (place?.alias === CHAMPION)
      throw new UsageError('--as: the champion is moved by `adapters promote`.');
    const registry = registryOf(flags);
    const { file, run } = findAdapter(adapter);
    if (run === null && model === undefined)
      throw new UsageError('Give the base model with --model, or publish a run.');
    if (run !== null && model !== undefined)
      throw new UsageError('A run says what its base is: leave out --model.');
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
    print(`${name}${named}${isNew ? '' : ' (published before)'}\nid ${id}\n`);
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
