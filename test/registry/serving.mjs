/**
 * A service as anybody would write one: a process with a model on a host, that answers each line of
 * its input, a key, with what answered. Arguments: registry, home, model, name.
 */
import { createInterface } from 'node:readline';
import { ModelHost, registry as shelf } from '../../dist/src/index.js';

const [folder, home, file, name] = process.argv.slice(2);
const say = (value) => process.stdout.write(`${JSON.stringify(value)}\n`);
const host = new ModelHost();
const model = await host.load(file, { threads: 1, fixedThreads: true, contextTokens: 512 });
const service = await shelf.serveAdapters(new shelf.Registry({ folder, home }), {
  baseSha256: await model.hash(),
  rendererId: model.rendererId,
  names: [name],
  load: ({ file: adapter }) => model.loadAdapter(adapter),
  unload: (adapter) => adapter.dispose(),
  onMoved: (alias, id) => say({ moved: alias, id }),
  onError: ({ code }) => say({ error: code }),
});
say({ ready: service.names() });
for await (const key of createInterface({ input: process.stdin })) {
  try {
    const version = await service.resolve(name, key);
    const { text } = await model.generate({
      prompt: 'Job',
      adapter: version.adapter,
      maxTokens: 12,
      sampling: { temperature: 0 },
    });
    version.release();
    say({ key, id: version.id, text });
  } catch ({ code }) {
    say({ key, code });
  }
}
await service.close();
await host.dispose();
