// test-native.mjs [--sanitize] [part of a test's name]: builds test/native with CMake, in a folder of its own, and runs
// it. --sanitize adds the address and undefined-behaviour sanitisers.
import { spawnSync } from 'node:child_process';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const sanitize = process.argv.includes('--sanitize');
const names = process.argv.slice(2).filter((argument) => !argument.startsWith('--'));
const build = path.join(root, sanitize ? 'build-native-asan' : 'build-native');

function run(command, args, env = {}) {
  const { status, error } = spawnSync(command, args, { stdio: 'inherit', cwd: root, env: { ...process.env, ...env } });
  if (error !== undefined) throw new Error(`${command} could not be run: ${error.message}`);
  if (status !== 0) process.exit(status ?? 1);
}

const onOff = (on) => (on ? 'ON' : 'OFF');
run('cmake', ['-S', root, '-B', build, '-DCMAKE_BUILD_TYPE=Release', '-DISOPRO_NATIVE_TESTS=ON', `-DISOPRO_SANITIZE=${onOff(sanitize)}`]);
run('cmake', ['--build', build, '--config', 'Release', '--parallel', '2', '--target', 'isopro_native_tests']);
const executable = process.platform === 'win32' ? path.join(build, 'Release', 'isopro_native_tests.exe') : path.join(build, 'isopro_native_tests');
// libllama is not built with the sanitisers and keeps what it allocates once a process.
run(executable, names, { ASAN_OPTIONS: 'detect_leaks=0:abort_on_error=1', UBSAN_OPTIONS: 'print_stacktrace=1' });
