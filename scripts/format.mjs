// `npm run format`: every source file as biome (biome.jsonc) and clang-format (.clang-format) write
// it; `-- --check` names those that are not so and changes nothing. test/package/format.test.ts
// runs the check.
import { spawnSync } from 'node:child_process';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const check = process.argv.includes('--check');
const run = (command, args) =>
  spawnSync(command, args, { cwd: root, encoding: 'utf8', maxBuffer: 2 ** 28 });
const listed = run('git', ['ls-files', '-z', 'native', 'test']);
if (listed.status !== 0) throw new Error(`the list of files comes from git: ${listed.stderr}`);
const native = listed.stdout.split('\0').filter((file) => /\.(cpp|h|inl)$/.test(file));

const program = (name) => path.join(root, 'node_modules', name);
const steps = [
  ['biome', [program('@biomejs/biome/bin/biome'), 'format', ...(check ? [] : ['--write']), '.']],
  [
    'clang-format',
    [program('clang-format/index.js'), ...(check ? ['--dry-run', '-Werror'] : ['-i']), ...native],
  ],
];
for (const [name, args] of steps) {
  const { status, stdout, stderr } = run(process.execPath, args);
  if (status === 0) continue;
  console.error(`${name}:\n${stdout}${stderr}`);
  process.exitCode = 1;
}
