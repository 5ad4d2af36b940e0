// `npm run lint`: what biome's linter finds under biome.jsonc of the current folder, by file and
// line. All of it is an error, of whatever level. test/package/lint.test.ts runs it.
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const biome = fileURLToPath(new URL('../node_modules/@biomejs/biome/bin/biome', import.meta.url));
const { stdout, stderr } = spawnSync(
  process.execPath,
  [biome, 'lint', '--reporter=json', '--max-diagnostics=none', '.'],
  { encoding: 'utf8', maxBuffer: 2 ** 28 },
);
// what it says of a configuration that it cannot read is on stderr alone
if (!stdout.startsWith('{')) throw new Error(`biome did not lint: ${stderr}`);
const { summary, diagnostics } = JSON.parse(stdout);
for (const { category, message, location } of diagnostics)
  console.error(`${location.path}:${location.start?.line ?? 1}: ${category}: ${message}`);
if (diagnostics.length > 0) process.exitCode = 1;
console.log(`${summary.unchanged} files, ${diagnostics.length} places to mend`);
