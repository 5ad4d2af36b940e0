import { label } from '../../text/hostile-text.js';
import { listTable } from '../../text/terminal.js';
import { terminalStyle } from '../../text/terminal-style.js';
import { aliasText } from '../../registry/names.js';
import { nameOf } from '../../registry/record.js';
import { print, printJsonLine } from '../output.js';
import { registryOf, registryOption, timeText } from '../registry-flags.js';
import { command } from '../command.js';

export const adaptersListCommand = command({
  command: 'list',
  describe: 'List published adapters, newest first, with their aliases',
  options: { registry: registryOption },
  examples: [['$0 adapters list --json', 'one JSON object per line, with every field']],
  handler: async ({ json, ...flags }) => {
    const { state } = await registryOf(flags).read();
    const namesOf = (id: string): string[] =>
      state.aliases
        .filter(({ current }) => current === id)
        .map(({ slot, alias }) => aliasText(slot, alias));
    const entries = [...state.entries.values()].sort((a, b) => b.publishedUs - a.publishedUs);
    if (json) {
      for (const { id, record, publishedUs, withdrawn, collected } of entries)
        printJsonLine({
          id,
          name: nameOf(record, id),
          aliases: namesOf(id),
          published: timeText(publishedUs),
          withdrawn,
          collected,
          record,
        });
      return;
    }
    if (entries.length === 0) return print('No adapters are published here.\n');
    const rows = entries.map(({ id, record, publishedUs, withdrawn, collected }) => [
      label(nameOf(record, id), 60),
      label(namesOf(id).join(', ') || '–', 60),
      timeText(publishedUs),
      `${record.adapter.rank}`,
      withdrawn !== null ? 'withdrawn' : collected ? 'bytes deleted' : 'there',
      label(record.evidence[0]?.description ?? '–', 90),
    ]);
    print(
      `${listTable(['name', 'aliases', 'published', 'rank', 'state', 'evidence'], rows, terminalStyle(process.stdout))}\n`,
    );
    const base = state.aliases
      .filter(({ current }) => current === null)
      .map(({ slot, alias }) => aliasText(slot, alias));
    if (base.length > 0) print(`\nrolled back to the base model: ${base.join(', ')}\n`);
  },
});
