/**
 * Writes into table.json what this project rendered until it had an interpreter of its own, as
 * `before`: the texts of @huggingface/jinja 0.5.11, null where it failed.
 *
 *     npm install --prefix FOLDER @huggingface/jinja@0.5.11 && node before.mjs FOLDER
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';

const { Template } = createRequire(path.resolve(process.argv[2], 'x.js'))('@huggingface/jinja');
/** Written before every template then, so that none was told the time. */
const NO_CLOCK = "{% set strftime_now = undefined %}{{ '' }}";
for (const name of ['table.json', 'models.json']) {
  const file = new URL(name, import.meta.url);
  const table = JSON.parse(readFileSync(file, 'utf8'));
  for (const one of table.cases) {
    const before = (variables) => {
      try {
        return new Template(NO_CLOCK + one.template).render(structuredClone(variables));
      } catch {
        return null;
      }
    };
    one.before =
      table.conversations === undefined ? before(table.variables) : table.conversations.map(before);
  }
  writeFileSync(
    file,
    `${JSON.stringify(table, null, 1).replace(/[\x7f-\uffff]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`)}\n`,
  );
}
