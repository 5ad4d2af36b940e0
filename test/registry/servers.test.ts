/**
 * Processes that serve from a registry, by their files: who is asked before a name moves, what is
 * said, and what of it stays. No registry, no model.
 */
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { registryPaths, type RegistryPaths } from '../../src/registry/folder.js';
import {
  Questions,
  Registration,
  serversOf,
  type Answer,
  type Presence,
} from '../../src/registry/servers.js';

const folder = mkdtempSync(path.join(tmpdir(), 'isopro-servers-'));
const [ID, BASE, OTHER] = ['1', '2', '3'].map((digit) => digit.repeat(64)) as [
  string,
  string,
  string,
];
const ALIAS = 'sql@champion';
const ASKED = { id: ID, alias: ALIAS, patienceMs: 20_000 };
let paths: RegistryPaths;
const taken: Registration[] = [];
beforeEach(() => {
  paths = registryPaths(mkdtempSync(path.join(folder, 'case-')));
});
afterEach(() => {
  for (const each of taken.splice(0)) each.end();
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Without the journals of locks that are held. */
const files = (): string[] =>
  readdirSync(paths.servers)
    .filter((name) => !name.endsWith('-journal'))
    .sort();
const put = (name: string, value: unknown): void =>
  writeFileSync(
    path.join(paths.servers, name),
    typeof value === 'string' ? value : JSON.stringify(value),
  );
/** A server that lives, and the name that it gave itself. */
async function serving(said: Presence): Promise<{ name: string; registration: Registration }> {
  const before = new Set(existsSync(paths.servers) ? files() : []);
  const registration = await Registration.take(paths, said);
  taken.push(registration);
  const name = files().find((each) => each.endsWith('.json') && !before.has(each))!;
  return { name: name.slice(0, -'.json'.length), registration };
}
const EVERYTHING: Presence = { names: null, baseSha256: null };

describe('who serves a name', () => {
  test.each<[names: string[] | null, base: string | null, serves: boolean]>([
    [null, null, true],
    [null, BASE, true],
    [null, OTHER, false],
    [[ALIAS], BASE, true],
    [['a@champion', ALIAS], OTHER, true], // it says itself that it does not fit
    [[ALIAS], null, true],
    [['a@champion'], BASE, false],
    [['a@champion'], null, false],
    [[], BASE, false],
  ])('names %j of the base %s: %s', async (names, baseSha256, serves) => {
    const { name } = await serving({ names, baseSha256 });
    expect(name).toMatch(/^[0-9a-f]{16}$/);
    expect(JSON.parse(readFileSync(path.join(paths.servers, `${name}.json`), 'utf8'))).toEqual({
      names,
      baseSha256,
    });
    expect(serversOf(paths, ALIAS, BASE)).toEqual(serves ? [name] : []);
  });

  test('all that live; what one that has ended left is taken away, and nothing else', async () => {
    expect(serversOf(paths, ALIAS, BASE)).toEqual([]); // no folder yet
    const [one, two] = [await serving(EVERYTHING), await serving(EVERYTHING)];
    const gone = '0123456789abcdef';
    put(`${gone}.json`, EVERYTHING);
    for (const end of ['lock', 'aaaaaaaaaaaaaaaa.ask', 'aaaaaaaaaaaaaaaa.answer'])
      put(`${gone}.${end}`, '');
    const strange = [
      `${gone}0.json`, // a digit more
      `x${gone}.json`,
      `${gone}.json.partial`.replace(gone, 'fedcba9876543210'),
      'note.json',
    ];
    for (const name of strange) put(name, EVERYTHING);
    expect(serversOf(paths, ALIAS, BASE).sort()).toEqual([one.name, two.name].sort());
    expect(files()).toEqual(
      [one.name, two.name]
        .flatMap((name) => [`${name}.json`, `${name}.lock`])
        .concat(strange)
        .sort(),
    );
    one.registration.end();
    expect(serversOf(paths, ALIAS, BASE)).toEqual([two.name]);
    expect(files().filter((name) => name.startsWith(one.name))).toEqual([]);
    // what it says cannot be read now: it is not asked, and stays
    put(`${two.name}.json`, '{"names":');
    expect(serversOf(paths, ALIAS, BASE)).toEqual([]);
    put(`${two.name}.json`, { names: 'all', baseSha256: null });
    expect(serversOf(paths, ALIAS, BASE)).toEqual([]);
    expect(files()).toContain(`${two.name}.lock`);
  });

  test('a folder that cannot be made is an error with its path', async () => {
    mkdirSync(path.dirname(paths.servers), { recursive: true });
    writeFileSync(paths.servers, 'no folder');
    await expect(Registration.take(paths, EVERYTHING)).rejects.toThrow(paths.servers);
    expect(serversOf(paths, ALIAS, BASE)).toEqual([]);
  });
});

test('a server reads its own whole questions, and takes away the one that it is told to', async () => {
  const { name, registration } = await serving(EVERYTHING);
  const [one, two, half] = ['1', '2', '3'].map((digit) => digit.repeat(16)) as [
    string,
    string,
    string,
  ];
  put(`${name}.${one}.ask`, ASKED);
  put(`${name}.${two}.ask`, { ...ASKED, patienceMs: 5 });
  put(`${name}.${half}.ask`, '{"id":');
  put(`${name}.${'4'.repeat(16)}.ask`, { ...ASKED, id: 'no id' });
  put(`${name}.${'5'.repeat(16)}.answer`, ASKED);
  put(`${'9'.repeat(16)}.${one}.ask`, ASKED); // another server's
  put(`${name}.${'6'.repeat(17)}.ask`, ASKED);
  expect([...registration.questions()].sort()).toEqual([
    [one, ASKED],
    [two, { ...ASKED, patienceMs: 5 }],
  ]);
  const refusal: Answer = { ok: false, reason: 'foreign-base', message: 'another' };
  await registration.answer(one, refusal);
  await registration.answer(two, { ok: true });
  expect(
    JSON.parse(readFileSync(path.join(paths.servers, `${name}.${one}.answer`), 'utf8')),
  ).toEqual(refusal);
  registration.drop(one);
  registration.drop('7'.repeat(16)); // is not there
  expect(files().filter((each) => each.startsWith(`${name}.${one}`))).toEqual([]);
  expect(files().filter((each) => each.startsWith(`${name}.${two}`))).toEqual([
    `${name}.${two}.answer`,
    `${name}.${two}.ask`,
  ]);
  expect([...registration.questions().keys()]).toEqual([two]);
  registration.end();
  expect(files()).toEqual([`${'9'.repeat(16)}.${one}.ask`]);
  expect(registration.questions().size).toBe(0);
});

describe('a question', () => {
  const answerAll = async (
    { registration }: Awaited<ReturnType<typeof serving>>,
    given: Answer,
  ): Promise<string[]> => {
    for (;;) {
      const asked = [...registration.questions()];
      for (const [name, question] of asked) {
        expect(question).toEqual(ASKED);
        await registration.answer(name, given);
      }
      if (asked.length > 0) return asked.map(([name]) => name);
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  };

  test('goes once to each server that was not asked, waits for all, and is taken away with its answers', async () => {
    const [one, two] = [await serving(EVERYTHING), await serving(EVERYTHING)];
    const questions = new Questions(paths, ASKED);
    expect([questions.covers([]), questions.covers([one.name])]).toEqual([true, false]);
    const [, asked] = await Promise.all([questions.ask([one.name]), answerAll(one, { ok: true })]);
    expect(asked).toHaveLength(1);
    expect([questions.covers([one.name]), questions.covers([one.name, two.name])]).toEqual([
      true,
      false,
    ]);
    expect(two.registration.questions().size).toBe(0);
    // the first is not asked a second time, and its question stands while the other is asked
    const [, more] = await Promise.all([
      questions.ask([one.name, two.name]),
      answerAll(two, { ok: true }),
    ]);
    expect([more.length, [...one.registration.questions().keys()]]).toEqual([1, asked]);
    expect(questions.covers([two.name, one.name])).toBe(true);
    const strangers = `${one.name}.${'a'.repeat(16)}.ask`;
    put(strangers, ASKED);
    questions.withdraw();
    expect(files().filter((name) => /ask|answer/.test(name))).toEqual([strangers]);
  });

  test('that is refused says by whom it is not loaded, and why', async () => {
    const server = await serving(EVERYTHING);
    const questions = new Questions(paths, ASKED);
    const [asked] = await Promise.allSettled([
      questions.ask([server.name]),
      answerAll(server, { ok: false, reason: 'foreign-base', message: 'it is another one' }),
    ]);
    expect(asked).toMatchObject({
      reason: {
        code: 'SERVER_NOT_READY',
        message: `a running server cannot load ${ID} for ${ALIAS}: foreign-base: it is another one`,
      },
    });
  });

  test('without an answer is given up when the patience is over, and not before', async () => {
    const server = await serving(EVERYTHING);
    for (const patienceMs of [0, 150]) {
      const begun = performance.now();
      const questions = new Questions(paths, { ...ASKED, patienceMs });
      await expect(questions.ask([server.name])).rejects.toMatchObject({
        code: 'SERVER_NOT_READY',
        message: `a running server has not loaded ${ID} for ${ALIAS} within ${patienceMs / 1000} s`,
      });
      expect(performance.now() - begun).toBeGreaterThanOrEqual(patienceMs);
      questions.withdraw();
    }
    // half an answer is none yet
    const questions = new Questions(paths, ASKED);
    const waiting = questions.ask([server.name]);
    let asked: string | undefined;
    while (asked === undefined) {
      await new Promise((resolve) => setTimeout(resolve, 5));
      [asked] = server.registration.questions().keys();
    }
    put(`${server.name}.${asked}.answer`, '{"ok":tr');
    await new Promise((resolve) => setTimeout(resolve, 120));
    await server.registration.answer(asked, { ok: true });
    await waiting;
  });

  test('to one that ends is not waited for, whether it took its files away or was killed', async () => {
    const [tidy, killed] = [await serving(EVERYTHING), '0123456789abcdef'];
    put(`${killed}.json`, EVERYTHING); // nobody has its lock
    const questions = new Questions(paths, ASKED);
    const waiting = questions.ask([killed, tidy.name, 'feedfeedfeedfeed']);
    while (tidy.registration.questions().size === 0)
      await new Promise((resolve) => setTimeout(resolve, 5));
    tidy.registration.end();
    await waiting;
    // the lock was given back: the next one to look takes away what is left
    questions.withdraw();
    expect(serversOf(paths, ALIAS, BASE)).toEqual([]);
    expect(files()).toEqual([]);
  });
});
