// test-native.mjs [--sanitize | --arm64 | --blas | --oracle] [parts of tests' names]: builds
// test/native with CMake and runs it; without an option beside the addon, whose compiled core it
// takes, with one in a folder of its own.
//   --sanitize with the address and undefined-behaviour sanitisers; on Linux then the addon too,
//               with worker threads ended in the middle of its calls
//   --arm64 the tests of the trainer and of the kernels alone, cross-compiled for NEON and run
//               under qemu (g++-aarch64-linux-gnu, qemu-user)
//   --blas the trainer's tests alone, with the products through OpenBLAS: the code that macOS runs
//               on Accelerate (libopenblas-dev)
//   --oracle   only builds the program that runs llama.cpp alone, for test/engine/decoders.test.ts
// --arm64 and --blas are skipped, with a message, where their Debian packages are absent.
import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, rmSync, symlinkSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const has = (option) => process.argv.includes(option);
const names = process.argv.slice(2).filter((argument) => !argument.startsWith('--'));

function run(command, args, env = {}, cwd = root) {
  const { status, error } = spawnSync(command, args, {
    stdio: 'inherit',
    cwd,
    env: { ...process.env, ...env },
  });
  if (error !== undefined) throw new Error(`${command} could not be run: ${error.message}`);
  if (status !== 0) process.exit(status ?? 1);
}

const executableIn = (folder, target) =>
  path.join(
    root,
    folder,
    'tests',
    ...(process.platform === 'win32' ? ['Release', `${target}.exe`] : [target]),
  );

/**
 * Configures and builds `target` in `folder` of the project; returns the path of the executable.
 */
function build(folder, target, options, env = {}) {
  const at = path.join(root, folder);
  run('cmake', ['-S', root, '-B', at, '-DCMAKE_BUILD_TYPE=Release', ...options], env);
  run('cmake', ['--build', at, '--config', 'Release', '--parallel', '2', '--target', target], env);
  return executableIn(folder, target);
}

function buildBesideAddon(target) {
  const cmakeJs = createRequire(import.meta.url).resolve('cmake-js/bin/cmake-js');
  run(process.execPath, [cmakeJs, 'compile', '--directory', root, '--target', target], {
    CMAKE_BUILD_PARALLEL_LEVEL: '2',
  });
  return executableIn('build', target);
}

function skipUnless(found, packages) {
  if (found) return;
  console.warn(`skipped: needs the Debian packages ${packages}`);
  process.exit(0);
}

/**
 * A copy of this package whose addon is built with the sanitisers; Node itself is not, so their
 * libraries are loaded first.
 */
function endWorkersUnderSanitisers(environment) {
  const out = path.join(root, 'build-addon-asan');
  const copy = path.join(out, 'package');
  run('npx', ['--no-install', 'cmake-js', 'compile', '--out', out, '--CDISOPRO_SANITIZE=ON']);
  rmSync(copy, { recursive: true, force: true });
  mkdirSync(path.join(copy, 'build'), { recursive: true });
  const files = ['package.json', 'dist', 'test/engine/terminated-workers.mjs'];
  for (const file of files)
    cpSync(path.join(root, file), path.join(copy, file), { recursive: true });
  symlinkSync(path.join(out, 'Release'), path.join(copy, 'build', 'Release'));
  const model = path.join(copy, 'model.gguf');
  const write =
    `import { writeSyntheticModel } from './dist/test/models/synthetic.js'; writeSyntheticModel(${JSON.stringify(model)}, { ` +
    `architecture: 'llama', type: 'Q8_0', seed: 21n });`;
  run(process.execPath, ['--input-type=module', '-e', write], {}, copy);
  const library = (name) =>
    spawnSync('cc', [`-print-file-name=${name}`], { encoding: 'utf8' }).stdout.trim();
  const LD_PRELOAD = `${library('libasan.so')} ${library('libstdc++.so')}`;
  for (const call of [
    'step',
    'stepWithBoundary',
    'load',
    'loadScoreDispose',
    'applyTo',
    'generate',
    'reply',
    'hidden',
    'export',
    'inspect',
  ]) {
    console.log(`worker.terminate() in the middle of ${call}, 200 times`);
    run(
      process.execPath,
      ['test/engine/terminated-workers.mjs', call, '200', model],
      { ...environment, LD_PRELOAD },
      copy,
    );
  }
}

const runs = (command) => spawnSync(command, ['--version']).status === 0;

if (has('--oracle')) {
  buildBesideAddon('isopro_llama_greedy');
} else if (has('--arm64')) {
  skipUnless(
    runs('aarch64-linux-gnu-g++') && runs('qemu-aarch64'),
    'g++-aarch64-linux-gnu and qemu-user',
  );
  // libggml-base for arm64 comes out of llama.cpp's source; the rest of it is not built.
  const executable = build(
    'build-native-arm64',
    'isopro_trainer_tests',
    [
      '-DCMAKE_SYSTEM_NAME=Linux',
      '-DCMAKE_SYSTEM_PROCESSOR=aarch64',
      '-DCMAKE_C_COMPILER=aarch64-linux-gnu-gcc',
      '-DCMAKE_CXX_COMPILER=aarch64-linux-gnu-g++',
    ],
    { ISOPRO_LLAMA_FROM_SOURCE: '1' },
  );
  // Under emulation the references in double take minutes a test: every kernel, and what only the
  // whole trainer shows.
  const chosen = [
    'dequantis',
    'f16',
    'exponentials',
    'products',
    'norm_forward',
    'gated',
    'soft_cap',
    'softmax_forward',
    'thread_pool',
    'lora_target_likelihood',
    'any_number_of_threads',
    'kept_and_recomputed',
    'the_sums_that_they_say',
    'same_bits_on_every_instruction_set',
  ];
  run('qemu-aarch64', [
    '-L',
    '/usr/aarch64-linux-gnu',
    '-E',
    `LD_LIBRARY_PATH=${path.join(path.dirname(executable), 'bin')}`,
    executable,
    ...(names.length > 0 ? names : chosen),
  ]);
} else if (has('--blas')) {
  skipUnless(
    ['', '/x86_64-linux-gnu', '/aarch64-linux-gnu'].some((folder) =>
      existsSync(`/usr/include${folder}/cblas.h`),
    ),
    'libopenblas-dev',
  );
  run(build('build-native-blas', 'isopro_trainer_tests', ['-DISOPRO_TEST_BLAS=ON']), names, {
    OPENBLAS_NUM_THREADS: '1',
  });
} else {
  const sanitize = has('--sanitize');
  const target = 'isopro_native_tests';
  const executable = sanitize
    ? build('build-native-asan', target, ['-DISOPRO_SANITIZE=ON'])
    : buildBesideAddon(target);
  // libllama is not built with the sanitisers and keeps what it allocates once a process.
  const environment = {
    ASAN_OPTIONS: 'detect_leaks=0:abort_on_error=1',
    UBSAN_OPTIONS: 'print_stacktrace=1',
  };
  run(executable, names, environment);
  if (sanitize && process.platform === 'linux' && names.length === 0)
    endWorkersUnderSanitisers(environment);
}
