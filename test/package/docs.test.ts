/**
 * The documentation: its links, its pages of the commands, and its snippets, run as they stand
 * there. In the reading order of docs/README.md they are one session of somebody who installed the
 * package; only npx is short-circuited, which would cost half a second a command.
 */
import { execFile } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { COMMAND_NAMES, loadCommands } from '../../src/cli/commands.js';
import { runCli } from '../cli/run-cli.js';

const root = fileURLToPath(new URL('../..', import.meta.url));
const docs = path.join(root, 'docs');
const PAGES = [
  'README.md',
  'CHANGELOG.md',
  'CONTRIBUTING.md',
  'SECURITY.md',
  'dev/log.md',
  'results/truth/README.md',
  ...(readdirSync(docs, { recursive: true }) as string[])
    .filter((name) => name.endsWith('.md'))
    .map((name) => path.join('docs', name)),
];
const read = (page: string): string => readFileSync(path.join(root, page), 'utf8');

/** GitHub's anchor of a heading. */
const anchor = (heading: string): string =>
  heading
    .trim()
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\s_-]/gu, '')
    .replace(/\s/g, '-');
const withoutCode = (text: string): string => text.replace(/^```[^]*?^```$/gm, '');

const links = (page: string): string[] =>
  [...withoutCode(read(page)).matchAll(/\]\((?!https?:)([^)\s]+)\)/g)].map(([, target]) => target!);

test.each(PAGES)('%s: every link leads somewhere', (page) => {
  const dead = links(page).filter((target) => {
    const [file, heading] = target.split('#') as [string, string | undefined];
    const to = file === '' ? path.join(root, page) : path.resolve(root, path.dirname(page), file);
    if (!existsSync(to)) return true;
    return (
      heading !== undefined &&
      !withoutCode(readFileSync(to, 'utf8'))
        .split('\n')
        .some((line) => /^#+ /.test(line) && anchor(line.replace(/^#+ /, '')) === heading)
    );
  });
  expect(dead).toEqual([]);
});

/** dev/log.md tells of files that are gone. */
test.each(PAGES.filter((page) => page !== 'dev/log.md'))(
  '%s: every file of the project that it names is there',
  (page) => {
    const named = [
      ...read(page).matchAll(
        /(?<![\w./-])(?:assets|bench|dev|dist|docs|examples|native|results|scripts|src|test)\/[\w./-]*\w/g,
      ),
    ].map(([name]) => name);
    expect([...new Set(named)].filter((name) => !existsSync(path.join(root, name)))).toEqual([]);
  },
);

test('docs/README.md lists every page', () => {
  const listed = links('docs/README.md').map((target) => path.posix.join('docs', target));
  expect(
    PAGES.filter(
      (page) => page.startsWith('docs/') && page !== 'docs/README.md' && !listed.includes(page),
    ),
  ).toEqual([]);
});

test('every command has a page, and its flags are those of the command (npm run docs:commands)', async () => {
  const { pageOf } = (await import(path.join(root, 'scripts', 'document-commands.mjs'))) as {
    pageOf: (page: string, command: unknown) => string;
  };
  const commands = await loadCommands();
  const names = commands.map(({ command }) => String(command).split(' ')[0]!);
  expect(names).toEqual(COMMAND_NAMES);
  expect(readdirSync(path.join(docs, 'commands')).sort()).toEqual(
    names.map((name) => `${name}.md`).sort(),
  );
  for (const [index, command] of commands.entries()) {
    const page = read(`docs/commands/${names[index]}.md`);
    expect(page.startsWith(`# \`isopro-native ${names[index]}\`\n`)).toBe(true);
    expect(pageOf(page, command)).toBe(page);
  }
  // the program has these lines from when it was built
  const { stdout } = await runCli(['--help']);
  for (const { command, describe: said } of commands)
    expect(stdout.replace(/\s+/g, ' ')).toContain(
      `isopro-native ${String(command)} ${String(said)}`,
    );
  expect((await runCli(['evl', '--help'])).stdout).toBe(stdout);
  expect(await runCli(['evl', '--per-tier', '5'])).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('There is no command evl; did you mean eval?'),
  });
});

interface Block {
  readonly page: string;
  readonly language: string;
  readonly mark: string;
  readonly code: string;
}
const blocksOf = (page: string): Block[] =>
  [...read(page).matchAll(/^```(\w*)(?: (\S+))?\n([^]*?)^```$/gm)].map(
    ([, language, mark, code]) => ({
      page,
      language: language!,
      mark: mark ?? '',
      code: code!,
    }),
  );

test('excerpts of examples stand in them as they are printed', () => {
  const excerpts = PAGES.flatMap(blocksOf).filter(({ mark }) => mark.startsWith('examples/'));
  expect(excerpts.length).toBeGreaterThan(1);
  expect(excerpts.filter(({ mark, code }) => !read(mark).includes(code))).toEqual([]);
});

/**
 * A line without what differs from machine to machine and from one embedded model to the next:
 * words with digits, widths, and where this test keeps keys.
 */
const shape = (line: string): string =>
  line
    .replace(/\bISOPRO_HOME=\S+/g, '')
    .replace(/\S*\d\S*/g, '#')
    .replace(/\s+/g, ' ')
    .trim();

describe('the snippets, in reading order', () => {
  const project = mkdtempSync(path.join(tmpdir(), 'isopro-docs-'));
  const env = { ...process.env, ISOPRO_HOME: path.join(project, 'home'), NO_COLOR: '1' };
  afterAll(() => rmSync(project, { recursive: true, force: true }));
  beforeAll(() => {
    writeFileSync(path.join(project, 'package.json'), '{ "private": true, "type": "module" }');
    mkdirSync(path.join(project, 'node_modules'));
    symlinkSync(root, path.join(project, 'node_modules', 'isopro-native'), 'junction');
    mkdirSync(path.join(project, 'node_modules', '.bin'));
    symlinkSync(
      path.join(root, 'dist', 'program', 'main.js'),
      path.join(project, 'node_modules', '.bin', 'isopro-native'),
    );
    for (const name of ['ai', 'zod'])
      symlinkSync(
        path.join(root, 'node_modules', name),
        path.join(project, 'node_modules', name),
        'junction',
      );
    symlinkSync(path.join(root, 'examples'), path.join(project, 'examples'), 'junction');
  });

  async function run(command: string, args: readonly string[]): Promise<string> {
    return await new Promise((resolve, reject) => {
      execFile(
        command,
        args,
        { cwd: project, env, timeout: 120_000, maxBuffer: 2 ** 26 },
        (error, stdout, stderr) =>
          error === null
            ? resolve(`${stderr}\n${stdout}`)
            : reject(new Error(`${error.message}\n${stdout}`)),
      );
    });
  }
  /** What a snippet leaves running in the background ends with it. */
  const NPX =
    'npx() { shift; node node_modules/isopro-native/dist/program/main.js "$@"; }; ' +
    "trap 'kill $(jobs -p) 2>/dev/null || true' EXIT; set -eo pipefail; ";

  const order = [...new Set(links('docs/README.md').filter((target) => target.endsWith('.md')))]
    .map((target) => path.posix.join('docs', target))
    .filter((page) => page !== 'README.md');
  const session = order
    .flatMap((page) =>
      blocksOf(page).map((block, index, blocks) => ({
        ...block,
        printed: blocks[index + 1]?.language === 'text' ? blocks[index + 1]!.code : '',
      })),
    )
    .filter(({ mark }) => mark === 'run');

  test.each(session.map((block) => [block.page, block.code.split('\n')[0]!, block] as const))(
    '%s: %s',
    async (_page, _line, { language, code, printed }) => {
      const output =
        language === 'sh'
          ? await run('bash', ['-c', NPX + code])
          : await run(process.execPath, ['--input-type=module', '-e', code]);
      const seen = new Set(output.split('\n').map(shape));
      const promised = printed.split('\n').filter((line) => line.trim() !== '' && line !== '…');
      expect(promised.filter((line) => !seen.has(shape(line)))).toEqual([]);
    },
    150_000,
  );

  test('what they wrote is there', () => {
    for (const file of [
      'runs/first/report.html',
      'runs/own/manifest.json',
      'count.gguf',
      'first-peft/adapter_config.json',
      'merged.gguf',
      'proof.json',
      'replies.jsonl',
      'answers.jsonl',
      'witness.pub',
    ]) {
      expect([
        file,
        statSync(path.join(project, file), { throwIfNoEntry: false })?.isFile(),
      ]).toEqual([file, true]);
    }
    expect(JSON.parse(readFileSync(path.join(project, 'proof.json'), 'utf8'))).toMatchObject({
      holds: true,
    });
  });
});
