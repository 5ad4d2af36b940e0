/**
 * Tests run what dist/ was built from, so jest builds it first, however it was started.
 * ISOPRO_TESTS_AS_BUILT=1: dist/ is taken as it is, as `npm run test:mutants` has changed it.
 */
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

export default function buildFirst() {
  if (process.env.ISOPRO_TESTS_AS_BUILT === '1') return;
  const script = fileURLToPath(new URL('../scripts/build-ts.mjs', import.meta.url));
  const { status } = spawnSync(process.execPath, [script], { stdio: 'inherit' });
  if (status !== 0) throw new Error('the TypeScript does not compile: see above');
}
