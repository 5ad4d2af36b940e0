// test-processors.mjs [--bits] [--processors a,b,…] [--emulate a,b,…] [jest arguments]: the tests
// whose truth depends on the processor, on other processors than this one.
//   --bits         instead of tests: hashes of replies, logits and hidden states of our own kernels
//                  (test/models/own-bits.ts), which have to be those of test/engine/own-bits.json
//                  wherever the kernels run
//   --processors with the CPU back ends of ggml that are named, one after the other; all that this
//                 processor runs where none is named
//   --emulate on processors that this one is not, by qemu-user's names: other kernels of ours run
//                 there too. Always the selftest, since it is one process: what a test spawns would
//                 run outside of the emulator
// ggml takes the best of the back ends that it finds beside the addon. Here it finds one: the tests
// run in build-processors/, where the project is a copy, node_modules are hard links, and every
// libggml-cpu-* but one is taken out of both folders that have them. Without jest arguments each
// runs what `doctor --selftest` does: parity with node-llama-cpp, scores, gradients.
import { spawnSync } from 'node:child_process';
import {
  cpSync,
  existsSync,
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
} from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const folder = path.join(root, 'build-processors');
const project = path.join(folder, 'project');
const addonFolder = path.join('build', 'Release');
const peerFolder = path.join(
  'node_modules',
  '@node-llama-cpp',
  `${process.platform}-${process.arch}`,
  'bins',
  `${process.platform}-${process.arch}`,
);
const backend = /^libggml-cpu-(.+)\.so$/;
const jest = ['--experimental-vm-modules', path.join('node_modules', 'jest', 'bin', 'jest.js')];

if (process.argv[2] === '--load') {
  (await import('../dist/src/engine/addon.js')).loadAddon();
  process.exit(0);
}
if (process.argv[2] === '--own-bits') {
  const { ownBits } = await import('../dist/test/models/own-bits.js');
  process.stdout.write(JSON.stringify(await ownBits({ real: process.argv[3] === '--real' })), () =>
    process.exit(0),
  );
  await new Promise(() => {});
}
if (process.argv[2] === '--selftest') {
  const { selftest } = await import('../dist/bench/selftest.js');
  process.stdout.write(JSON.stringify(await selftest({ speed: false })), () => process.exit(0));
  await new Promise(() => {});
}

const list = (option) => {
  const at = process.argv.indexOf(option);
  return at === -1 ? [] : process.argv.splice(at, 2)[1].split(',');
};
const [named, emulated] = [list('--processors'), list('--emulate')];
const bits = process.argv.includes('--bits');
if (bits) process.argv.splice(process.argv.indexOf('--bits'), 1);
const tests = process.argv.slice(2);

function linkTree(from, to) {
  mkdirSync(to, { recursive: true });
  for (const entry of readdirSync(from, { withFileTypes: true })) {
    const [source, target] = [path.join(from, entry.name), path.join(to, entry.name)];
    if (entry.isDirectory()) linkTree(source, target);
    else if (entry.isSymbolicLink()) cpSync(source, target, { verbatimSymlinks: true });
    else linkSync(source, target);
  }
}

function makeProject() {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(project, { recursive: true });
  for (const name of readdirSync(root)) {
    if (name === '.git' || name === 'runs' || name === 'prebuilds' || name.startsWith('build'))
      continue;
    if (name === 'biome.jsonc') continue; // biome takes a second one below the root for a mistake
    if (name !== 'node_modules')
      cpSync(path.join(root, name), path.join(project, name), { recursive: true });
  }
  linkTree(path.join(root, 'node_modules'), path.join(project, 'node_modules'));
  linkTree(path.join(root, addonFolder), path.join(project, addonFolder));
  // Where tests look for models that are not the project's own.
  const shared = path.join(path.dirname(root), 'shared');
  if (existsSync(shared)) symlinkSync(shared, path.join(folder, 'shared'));
}

function install(name) {
  for (const at of [addonFolder, peerFolder]) {
    for (const file of readdirSync(path.join(project, at)))
      if (backend.test(file)) rmSync(path.join(project, at, file));
    linkSync(
      path.join(root, at, `libggml-cpu-${name}.so`),
      path.join(project, at, `libggml-cpu-${name}.so`),
    );
  }
}

/** This file in the copied project, under an emulator where one is given. */
function inProject(what, emulator = [], ...more) {
  const [command, ...args] = [
    ...emulator,
    process.execPath,
    path.join(project, 'scripts', 'test-processors.mjs'),
    what,
    ...more,
  ];
  return spawnSync(command, args, { cwd: project, encoding: 'utf8' });
}

/** Whether ggml takes the back end that is installed. */
const loads = () => inProject('--load').status === 0;

function selftest(emulator) {
  const { stdout, stderr } = inProject('--selftest', emulator);
  if (stdout === '') {
    console.log(stderr);
    return false;
  }
  const { findings, steps } = JSON.parse(stdout);
  console.log(`  ${findings.find(({ check }) => check === 'threads').detail}`);
  for (const { name, status, detail } of steps) console.log(`  ${status} ${name}: ${detail}`);
  return steps.every(({ status }) => status === 'ok');
}

/** Whether our kernels compute the bits that are known. An emulated processor has no real model. */
function hasOwnBits(emulator) {
  const { stdout, stderr } = inProject(
    '--own-bits',
    emulator,
    ...(emulator === undefined ? ['--real'] : []),
  );
  if (stdout === '') {
    console.log(stderr);
    return false;
  }
  const { version, hashes } = JSON.parse(
    readFileSync(path.join(root, 'test', 'engine', 'own-bits.json'), 'utf8'),
  );
  const found = Object.entries(JSON.parse(stdout));
  for (const [name, { version: is, hash }] of found)
    console.log(
      `  ${hash === hashes[name] && is === version ? 'ok' : 'OTHER BITS'} ${name} ${hash}`,
    );
  return found.every(([name, { version: is, hash }]) => hash === hashes[name] && is === version);
}

const check = bits ? hasOwnBits : selftest;

const available = existsSync(path.join(root, peerFolder))
  ? readdirSync(path.join(root, addonFolder))
      .flatMap((file) => backend.exec(file)?.[1] ?? [])
      .filter((name) => existsSync(path.join(root, peerFolder, `libggml-cpu-${name}.so`)))
  : [];
const unknown = named.filter((name) => !available.includes(name));
if (unknown.length > 0) {
  console.error(
    `no such back ends: ${unknown.join(', ')}; there are ${available.join(', ') || 'none'}`,
  );
  process.exit(2);
}
if (available.length < 2) {
  console.warn('skipped: this platform has one CPU back end');
  process.exit(0);
}

const failed = [];
makeProject();
for (const name of emulated) {
  if (spawnSync('qemu-x86_64', ['--version']).status !== 0) {
    console.warn('skipped: emulation needs the Debian package qemu-user');
    break;
  }
  console.log(`\n== ${name}, emulated`);
  if (!check(['qemu-x86_64', '-cpu', name])) failed.push(`${name}, emulated`);
}
for (const name of named.length > 0 || emulated.length > 0 ? named : available) {
  install(name);
  if (!loads()) {
    console.log(`\n== ${name}: not for this processor`);
    continue;
  }
  console.log(`\n== ${name}`);
  const passed =
    tests.length === 0
      ? check()
      : spawnSync(process.execPath, [...jest, ...tests], { cwd: project, stdio: 'inherit' })
          .status === 0;
  if (!passed) failed.push(name);
}
rmSync(folder, { recursive: true, force: true });
console.log(failed.length === 0 ? '\nall passed' : `\nfailed: ${failed.join(', ')}`);
process.exitCode = failed.length === 0 ? 0 : 1;
