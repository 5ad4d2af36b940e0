// count-lines.mjs [FOLDER…]: lines of code of src/ (or of the folders named), by room and in all:
// those of .ts and .tsx files that are neither blank nor a comment. A line with code and a comment
// is code.
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { table } from './table.mjs';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));

/** @param {string} text as Biome formats it: a comment begins a line, or ends one with code */
export function codeLines(text) {
  let inComment = false;
  return text.split('\n').filter((line) => {
    const said = line.trim();
    if (inComment) {
      inComment = !said.endsWith('*/');
      return false;
    }
    if (said === '' || said.startsWith('//')) return false;
    if (!said.startsWith('/*')) return true;
    inComment = !said.includes('*/');
    return !inComment && !said.endsWith('*/');
  }).length;
}

const files = (process.argv.length > 2 ? process.argv.slice(2) : ['src']).flatMap((folder) =>
  readdirSync(path.join(root, folder), { recursive: true })
    .map((name) => path.posix.join(folder, name.split(path.sep).join('/')))
    .filter((file) => /\.tsx?$/.test(file))
    .sort(),
);
const rooms = new Map();
for (const file of files) {
  const room = file.split('/').slice(0, 2).join('/');
  const lines = codeLines(readFileSync(path.join(root, file), 'utf8'));
  rooms.set(room, (rooms.get(room) ?? 0) + lines);
}
const all = [...rooms.values()].reduce((sum, lines) => sum + lines, 0);
console.log(table(['room', 'lines of code'], [...rooms, ['all', all]]));
