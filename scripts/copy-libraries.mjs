// copy-libraries.mjs FROM TO: puts the llama.cpp libraries of FROM beside our binary in TO, as hard
// links where the file system allows it (a loader that meets both then maps one file), else as
// copies. Those of another build that lay there before go away: ggml would load their back ends
// too.
import { copyFileSync, linkSync, mkdirSync, readdirSync, rmSync } from 'node:fs';
import path from 'node:path';

const isLibrary = (name) =>
  (/^(lib)?(llama|ggml)[-.\w]*\.(so|dylib|dll|metal)/.test(name) || /\.metallib$/.test(name)) &&
  !/llama-common/.test(name);

const [from, to] = process.argv.slice(2);
mkdirSync(to, { recursive: true });
for (const name of readdirSync(to).filter(isLibrary)) rmSync(path.join(to, name));
for (const name of readdirSync(from).filter(isLibrary)) {
  const source = path.join(from, name);
  const target = path.join(to, name);
  try {
    linkSync(source, target);
  } catch {
    copyFileSync(source, target);
  }
}
