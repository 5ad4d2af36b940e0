// copy-libraries.mjs FROM TO: puts the llama.cpp libraries of FROM beside our binary in TO, as hard links where the
// file system allows it (a loader that meets both then maps one file), else as copies.
import { copyFileSync, linkSync, mkdirSync, readdirSync, rmSync } from 'node:fs';
import path from 'node:path';

const [from, to] = process.argv.slice(2);
mkdirSync(to, { recursive: true });
for (const name of readdirSync(from)) {
  if (!/^(lib)?(llama|ggml)[-.\w]*\.(so|dylib|dll|metal)/.test(name) && !/\.metallib$/.test(name)) continue;
  if (/llama-common/.test(name)) continue;
  const source = path.join(from, name);
  const target = path.join(to, name);
  rmSync(target, { force: true });
  try {
    linkSync(source, target);
  } catch {
    copyFileSync(source, target);
  }
}
