// `npm run test:real`: the tests that need a real language model (jest's project `real`). Without
// network one line says that they did not run, and why, and that is no failure; a model that was
// fetched and is not the right one is.
import { spawnSync } from 'node:child_process';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const model = spawnSync(process.execPath, ['scripts/real-model.mjs'], {
  cwd: root,
  encoding: 'utf8',
});
const UNREACHABLE = 3; // scripts/real-model.mjs
if (model.status !== 0 && model.status !== UNREACHABLE) {
  console.error(model.stderr.trim());
  process.exitCode = 1;
} else if (model.status === UNREACHABLE) {
  console.log(
    `skipped: the tests with a real model did not run: ${model.stderr.trim().split('\n')[0]}`,
  );
} else {
  const jest = [
    '--experimental-vm-modules',
    'node_modules/jest/bin/jest.js',
    '--maxWorkers=2',
    ...process.argv.slice(2),
  ];
  const env = { ...process.env, ISOPRO_REAL_MODEL: model.stdout.trim() };
  process.exitCode =
    spawnSync(process.execPath, jest, { cwd: root, stdio: 'inherit', env }).status ?? 1;
}
