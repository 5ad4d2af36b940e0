/** Tries mutants on the tests that are nearest to them, and leaves everything as it was. */
import { spawn } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { isNative } from './draw.mjs';
import { nearestSuites } from './nearest.mjs';

const BUILD_SECONDS = 3600;
/** How much longer than without a mutant tests may take. */
const limitOf = (seconds) => 60 + 4 * seconds;
const TARGET = 'isopro_trainer_tests';
/** Of training; those of the kernels are not asked. */
const NATIVE_TESTS = [
  'training_test.cpp',
  'statistics_test.cpp',
  'refusals_test.cpp',
  'files_test.cpp',
  'prefix_test.cpp',
  'numbers_test.cpp',
  'formats_test.cpp',
];
/** What a build reads: of dist/, and of the native tests. */
const TYPESCRIPT = [
  'tsconfig.json',
  'package.json',
  'src',
  'bench',
  'examples',
  'test/models',
  'test/host/fixtures.ts',
];
const NATIVE = ['CMakeLists.txt', 'package.json', 'native', 'scripts', 'test/native'];

export class Trials {
  #root;
  #folder;
  #nearest;
  /** Seconds that tests take without a mutant, by their names. */
  #times;
  #onTime;
  #child;
  #putBack = () => {};
  /** Copies of the sources that have been built, where mutants are compiled. */
  #built = new Set();

  /**
   * @param folder for what is built
   * @param times that are known
   * @param onTime told of each that is measured
   */
  constructor(root, folder, times, onTime) {
    this.#root = root;
    this.#folder = folder;
    this.#nearest = nearestSuites(root);
    this.#times = times;
    this.#onTime = onTime;
    mkdirSync(folder, { recursive: true });
  }

  /**
   * What killed it: the names of tests; 'nothing' where it survived, and null where it does not
   * compile, or to the same.
   */
  async try({ file, text, whole }) {
    const [copy, build, test] = isNative(file)
      ? [path.join(this.#folder, 'native'), this.#buildNative, this.#testNative]
      : [path.join(this.#folder, 'typescript'), this.#buildTypeScript, this.#testTypeScript];
    if (!this.#built.has(copy)) {
      this.#copySources(isNative(file) ? NATIVE : TYPESCRIPT, copy);
      if ((await build.call(this, copy)) !== 0)
        throw new Error(`the sources do not compile in ${copy}`);
      this.#built.add(copy);
    }
    if (isNative(file)) await this.#timeOf(TARGET, () => this.#runNative(copy));
    try {
      writeFileSync(path.join(copy, file), text);
      return (await build.call(this, copy)) === 0 ? await test.call(this, copy, file) : null;
    } finally {
      writeFileSync(path.join(copy, file), whole);
    }
  }

  /** Ends what runs and puts everything back. */
  stop() {
    this.#kill();
    this.#putBack();
  }

  async #testTypeScript(copy, file) {
    const compiled = path.join('dist', file.replace(/\.ts$/, '.js'));
    const [place, code] = [
      path.join(this.#root, compiled),
      readFileSync(path.join(copy, compiled)),
    ];
    if (readFileSync(place).equals(code)) return null;
    for (const suites of this.#nearest(file)) {
      const name = suites.join(' ');
      const seconds = await this.#timeOf(name, () => this.#runSuites(suites));
      const kept = path.join(this.#folder, 'kept.js');
      // It comes back with the time at which it was written: the build of dist/ is told by that.
      renameSync(place, kept);
      this.#putBack = () => {
        renameSync(kept, place);
        this.#putBack = () => {};
      };
      try {
        writeFileSync(place, code);
        if ((await this.#runSuites(suites, limitOf(seconds))) !== 0) return name;
      } finally {
        this.#putBack();
      }
    }
    return 'nothing';
  }

  #runSuites(suites, seconds) {
    const jest = [
      '--experimental-vm-modules',
      'node_modules/jest/bin/jest.js',
      '--selectProjects',
      'unit',
      'loop',
      'campaign',
    ];
    const files = suites.map((suite) => `test/${suite}.test.ts`);
    return this.#run(process.execPath, [...jest, '--bail', '--silent', '--', ...files], seconds);
  }

  #runNative(copy, seconds) {
    const names = NATIVE_TESTS.flatMap((file) => {
      const tests = readFileSync(path.join(copy, 'test', 'native', file), 'utf8').matchAll(
        /^TEST\((\w+)\)/gm,
      );
      return Array.from(tests, ([, name]) => name);
    });
    return this.#run(path.join(copy, 'build', 'tests', TARGET), names, seconds);
  }

  async #testNative(copy) {
    return (await this.#runNative(copy, limitOf(this.#times.get(TARGET)))) === 0
      ? 'nothing'
      : TARGET;
  }

  #buildTypeScript(copy) {
    return this.#run(
      process.execPath,
      [path.join(this.#root, 'node_modules', 'typescript', 'bin', 'tsc'), '-p', copy],
      BUILD_SECONDS,
    );
  }

  async #buildNative(copy) {
    const build = path.join(copy, 'build');
    const configured = existsSync(path.join(build, 'CMakeCache.txt'))
      ? 0
      : await this.#run(
          'cmake',
          ['-S', copy, '-B', build, '-DCMAKE_BUILD_TYPE=Release'],
          BUILD_SECONDS,
        );
    if (configured !== 0) return configured;
    return this.#run(
      'cmake',
      ['--build', build, '--config', 'Release', '--parallel', '2', '--target', TARGET],
      BUILD_SECONDS,
    );
  }

  /** Only what differs is written, so that only that is compiled. */
  #copySources(names, copy) {
    for (const name of names) {
      const [from, to] = [path.join(this.#root, name), path.join(copy, name)];
      const files = statSync(from).isDirectory()
        ? ['', ...readdirSync(from, { recursive: true })]
        : [''];
      const there =
        existsSync(to) && statSync(to).isDirectory() ? readdirSync(to, { recursive: true }) : [];
      for (const file of there)
        if (!files.includes(file)) rmSync(path.join(to, file), { recursive: true, force: true });
      for (const file of files) {
        const [source, target] = [path.join(from, file), path.join(to, file)];
        if (statSync(source).isDirectory()) mkdirSync(target, { recursive: true });
        else if (!existsSync(target) || !readFileSync(source).equals(readFileSync(target)))
          cpSync(source, target);
      }
    }
    const modules = path.join(copy, 'node_modules');
    if (!existsSync(modules)) symlinkSync(path.join(this.#root, 'node_modules'), modules);
  }

  /** Tests that fail without a mutant kill none. */
  async #timeOf(name, run) {
    if (!this.#times.has(name)) {
      const begun = performance.now();
      if ((await run()) !== 0 && (await run()) !== 0)
        throw new Error(`${name}: fails without a mutant, twice`);
      const seconds = Math.ceil((performance.now() - begun) / 1000);
      this.#times.set(name, seconds);
      this.#onTime(name, seconds);
    }
    return this.#times.get(name);
  }

  /** @returns the exit code; null where it was over its time or ended by a signal */
  #run(command, args, seconds) {
    return new Promise((resolve, reject) => {
      const child = spawn(command, args, {
        cwd: this.#root,
        env: { ...process.env, ISOPRO_TESTS_AS_BUILT: '1' },
        stdio: 'ignore',
        detached: true,
      });
      this.#child = child;
      const timer =
        seconds === undefined ? undefined : setTimeout(() => this.#kill(), seconds * 1000);
      child.on('error', (cause) =>
        reject(new Error(`${command} could not be run: ${cause.message}`, { cause })),
      );
      child.on('exit', (code) => {
        clearTimeout(timer);
        this.#kill(); // what it left behind
        this.#child = undefined;
        resolve(code);
      });
    });
  }

  /** The whole group, which the child leads. */
  #kill() {
    if (this.#child?.pid === undefined) return;
    try {
      process.kill(-this.#child.pid, 'SIGKILL');
    } catch (error) {
      if (error.code !== 'ESRCH') throw error;
    }
  }
}
