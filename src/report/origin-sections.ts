/** Sections on the origin of a run: who vouches for its log, and what determined it. */
import type { MachineClass } from '../run-folder/manifest.js';
import type { RunRecord } from '../run-folder/read-run.js';
import { html, label, type HtmlValue } from '../text/hostile-text.js';
import { integrityText, type Integrity } from './integrity.js';
import { list, more, ROWS, section, type Section } from './markup.js';

/** Leaves of a plain object by their path. */
export function* leaves(value: unknown, path = ''): Generator<[string, string]> {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) {
    for (const [key, item] of Object.entries(value))
      yield* leaves(item, path === '' ? key : `${path}.${key}`);
  } else yield [path, typeof value === 'string' ? value : JSON.stringify(value)];
}

export function integritySection(integrity: Integrity): Section {
  return section(
    'integrity',
    'Integrity',
    integrityText(integrity).map((sentence) => html`<p>${label(sentence, 600)}</p>`),
    html`<p class="note muted">To judge this run yourself: <code>npx isopro-native judge FOLDER</code>; to check the log only:
<code>npx isopro-native log verify FOLDER --key witness.pub</code>.</p>`,
    integrity.outcome !== 'unchecked' && list([['Merkle root', integrity.root]]),
  );
}

/** A class of machine with its instruction sets on one line. */
const described = (machine: MachineClass): object =>
  'kernels' in machine ? machine : { ...machine, features: machine.features.join(' ') };

export function settingsSection({ manifest }: RunRecord): Section {
  const { settings, machine, ...rest } = manifest.start;
  const table = (values: Iterable<[string, string]>): HtmlValue => {
    const all = [...values];
    const rows = all
      .slice(0, 2 * ROWS)
      .map(([key, value]) => [label(key, 60), label(value, 300)] as const);
    return [list(rows), more(2 * ROWS, all.length, 'entries')];
  };
  const { rules, ...identities } = rest;
  return section(
    'settings',
    'Settings and hashes',
    table(leaves(settings)),
    html`<h3>What determined the run</h3>`,
    table(leaves({ ...identities, machine: described(machine) })),
    html`<h3>Thresholds of the rules</h3>`,
    table(leaves(rules)),
  );
}
