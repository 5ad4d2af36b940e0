/**
 * A program of the user's that answers: what it is asked, what becomes of its replies, and that
 * each of its faults is typed, ends in time and leaves no process behind.
 */
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, test } from '@jest/globals';
import { commandBackend, type CommandOptions } from '../../src/backends/command.js';
import {
  sampleFrom,
  type Backend,
  type Reply,
  type SampleRequest,
} from '../../src/backends/backend.js';
import { Random } from '../../src/random.js';
import { shellWord } from '../../src/shell-word.js';
import { shellWords } from '../../src/shell-words.js';

const PROGRAM = path.resolve('test/backends/command-program.mjs');
const opened: Backend[] = [];
afterEach(async () => {
  for (const backend of opened.splice(0)) await backend.dispose();
});

const open = (words: readonly string[], options: CommandOptions = {}): Backend => {
  const command = [process.execPath, PROGRAM, ...words].map(shellWord).join(' ');
  const backend = commandBackend(command, { onStderr: () => {}, ...options });
  opened.push(backend);
  return backend;
};
const asking = (contents: readonly string[], over: Partial<SampleRequest> = {}): SampleRequest => ({
  prompts: contents.map((content, i) => ({
    id: `p${i}`,
    messages: [{ role: 'user', content }],
    seeds: [7n],
  })),
  sampling: { temperature: 0 },
  maxTokens: 9,
  ...over,
});
/** Replies in the order of the prompts. */
const ask = async (backend: Backend, request: SampleRequest): Promise<Reply[]> => {
  const replies: Reply[] = [];
  for await (const reply of sampleFrom(backend, request)) replies.push(reply);
  return replies.sort((a, b) => a.promptIndex - b.promptIndex || a.sampleIndex - b.sampleIndex);
};
const code = (expected: string, message: RegExp): object =>
  expect.objectContaining({
    code: expected,
    message: expect.stringMatching(message) as unknown,
  }) as object;
/** `text`, or the reason of what has failed. */
const words = ({ finish, text, failure }: Reply): string =>
  finish === 'failed' ? `${failure!.kind}: ${failure!.message}` : text;

describe('the words of a command', () => {
  test.each<[string, string[]]>([
    ['python3 agent.py --fast', ['python3', 'agent.py', '--fast']],
    ['  a\t\'b c\' "d e"f\n', ['a', 'b c', 'd ef']],
    [`'it'\\''s' "say \\"hi\\"" \\$HOME \\ x`, ["it's", 'say "hi"', '$HOME', ' x']],
    [
      `$HOME *.py | tee > x && y; "" ''`,
      ['$HOME', '*.py', '|', 'tee', '>', 'x', '&&', 'y;', '', ''],
    ],
    ['', []],
  ])('%s', (text, expected) => expect(shellWords(text, 'linux')).toEqual(expected));
  test('on Windows a backslash is a character, and a quote in single quotes is doubled', () =>
    expect(shellWords(`C:\\bin\\x.exe "a b" 'it''s "q"'`, 'win32')).toEqual([
      'C:\\bin\\x.exe',
      'a b',
      'it\'s "q"',
    ]));
  test('what shellWord quotes is cut to the same words', () => {
    const random = new Random(1n);
    const pick = (from: string): string => from[random.nextInteger(0, from.length - 1)]!;
    const characters = 'ab01 \t\n\'"\\$`|*?;&<>()#~!=,é€’';
    for (let trial = 0; trial < 2000; trial++) {
      const given = Array.from({ length: random.nextInteger(1, 4) }, () =>
        Array.from({ length: random.nextInteger(0, 7) }, () => pick(characters)).join(''),
      );
      expect(shellWords(given.map(shellWord).join(' '))).toEqual(given);
    }
  });
  test.each([
    [`a 'b`, /a quote ' is not closed/],
    ['a "b', /a quote " is not closed/],
    ['a\\', /a backslash is at the end/],
  ])('%s is refused', (text, message) =>
    expect(() => shellWords(text, 'linux')).toThrow(code('INVALID_ARGUMENT', message) as never),
  );
});

describe('what the program is given', () => {
  test('the messages, the settings and the seed of each sample, and no shell', async () => {
    const backend = open(['whole']);
    const request = asking(['first'], {
      prompts: [
        {
          id: 'p',
          messages: [
            { role: 'system', content: 'be brief' },
            { role: 'user', content: 'first' },
          ],
          seeds: [1n, 2n ** 64n - 1n],
        },
      ],
      sampling: { temperature: 0.7, topP: 0.9 },
      stop: ['\n'],
    });
    const replies = await ask(backend, request);
    expect(
      replies.map(({ tokens, promptTokens, finish }) => [tokens, promptTokens, finish]),
    ).toEqual([
      [3, 7, 'stop'],
      [3, 7, 'stop'],
    ]);
    expect(replies.map(({ text }) => JSON.parse(text) as unknown)).toEqual(
      ['1', '18446744073709551615'].map((seed, sample) => ({
        prompt: 'p',
        sample,
        messages: [
          { role: 'system', content: 'be brief' },
          { role: 'user', content: 'first' },
        ],
        maxTokens: 9,
        temperature: 0.7,
        topP: 0.9,
        seed,
        stop: ['\n'],
      })),
    );
    const given = ['$HOME', 'a b', '*', '| cat', "it's", ''];
    const [reply] = await ask(open(['arguments', ...given]), asking(['x']));
    expect(JSON.parse(reply!.text)).toEqual(given);
  });
  test('an environment without keys', async () => {
    process.env.OPENAI_API_KEY = 'canary-0123456789';
    process.env.OWN_COPY = 'Bearer canary-0123456789';
    process.env.OWN_SETTING = 'stays';
    const [reply] = await ask(open(['environment']), asking(['x']));
    for (const name of ['OPENAI_API_KEY', 'OWN_COPY', 'OWN_SETTING']) delete process.env[name];
    const seen = JSON.parse(reply!.text) as Record<string, string>;
    expect([seen.OPENAI_API_KEY, seen.OWN_COPY, seen.OWN_SETTING]).toEqual([
      undefined,
      undefined,
      'stays',
    ]);
    expect(seen.PATH).toBe(process.env.PATH);
  });
  test('several requests at once, whose replies come in any order', async () => {
    const contents = ['a', 'b', 'c', 'd'];
    const replies = await ask(open(['pairs']), asking(contents, { maxSequences: 2 }));
    expect(replies.map(({ text }) => text)).toEqual(contents);
    expect(replies.map(({ finish }) => finish)).toEqual(['stop', 'length', 'stop', 'length']);
    // one at a time, the first of a pair is never answered
    const slow = open(['pairs'], { replySeconds: 0.5, atOnce: 1 });
    await expect(ask(slow, asking(contents))).rejects.toThrow(
      code(
        'BACKEND_PROGRAM_FAILED',
        /wrote no reply for 0.5 s, and had replied to nothing/,
      ) as never,
    );
  });
});

describe('a fault ends its sample or the request, and is typed', () => {
  const one = { maxSequences: 1 };
  test('an error, a crash and a silence fail one sample each; the others are answered', async () => {
    const backend = open(['told'], { replySeconds: 1 });
    const contents = ['say', 'error', 'say', 'crash', 'say', 'hang', 'say'];
    const replies = await ask(backend, asking(contents, one));
    expect(replies.map(words)).toEqual([
      'yes',
      'program: no credit left',
      'yes',
      'ended: the program ended (code 3): TypeError: it broke',
      'yes',
      'timeout: the program wrote no reply for 1 s',
      'yes',
    ]);
    expect(replies.map(({ failure }) => failure?.attempts ?? 0)).toEqual([0, 1, 0, 1, 0, 1, 0]);
  });
  test('of several open requests the oldest has failed, and the others are asked again', async () => {
    const backend = open(['told'], { replySeconds: 5 });
    const contents = ['say', 'crash', 'say a', 'say b', 'crash', 'say c'];
    const replies = await ask(backend, asking(contents, { maxSequences: 6 }));
    expect(replies.map(({ finish }) => finish)).toEqual([
      'stop',
      'failed',
      'stop',
      'stop',
      'failed',
      'stop',
    ]);
  });
  test.each<[string, string, RegExp]>([
    [
      'a line that is no JSON',
      'garbage',
      /wrote a line that is not a reply: "Thinking about it\.\.\."/,
    ],
    ['an id of another type', 'number', /wrote a line that is not a reply/],
    ['a reply without text', 'textless', /wrote a line that is not a reply/],
    ['a line without an end', 'huge', /wrote more than 16777216 bytes in one line/],
    ['a wrong id', 'other', /replied to request 1002, which was not made/],
    ['a second reply', 'twice', /replied to request 2 a second time/],
  ])('%s: BACKEND_REPLY_INVALID', async (_, fault, message) => {
    const backend = open(['told'], { replySeconds: 20 });
    await expect(ask(backend, asking(['say', fault, 'say', 'say'], one))).rejects.toThrow(
      code('BACKEND_REPLY_INVALID', message) as never,
    );
    // the next request is answered by another process
    expect((await ask(backend, asking(['say']))).map(words)).toEqual(['yes']);
  });
  test('half a line, and a program that stops reading', async () => {
    const backend = open(['told'], { replySeconds: 1 });
    const replies = await ask(backend, asking(['say', 'half', 'say', 'deaf', 'say'], one));
    expect(replies.map(words)).toEqual([
      'yes',
      'ended: the program ended (code 0) in the middle of the line "{\\"id\\": 2, \\"te"',
      'yes',
      expect.stringMatching(/^(ended|timeout): the program/),
      'yes',
    ]);
  });
  test.each<[string, () => Backend, RegExp]>([
    [
      'cannot be started',
      () => commandBackend('no-such-program-here x'),
      /could not be started: .*ENOENT/,
    ],
    [
      'ends at once',
      () => open(['end']),
      /ended \(code 1\).*: cannot find the model, and had replied to nothing before/,
    ],
    ['ends well at once', () => open(['end', '0']), /ended \(code 0\)/],
    [
      'never says anything',
      () => open(['silent'], { replySeconds: 0.5 }),
      /wrote no reply for 0.5 s/,
    ],
  ])('a program that %s: BACKEND_PROGRAM_FAILED', async (_, start, message) => {
    await expect(ask(start(), asking(['a', 'b']))).rejects.toThrow(
      code('BACKEND_PROGRAM_FAILED', message) as never,
    );
  });
  test('no program, and one that no process can be given', async () => {
    expect(() => commandBackend('  ')).toThrow(
      code('INVALID_ARGUMENT', /expected PROGRAM/) as never,
    );
    await expect(ask(commandBackend('node a\0b'), asking(['x']))).rejects.toThrow(
      code('INVALID_ARGUMENT', /invalid arguments for a process/) as never,
    );
  });
  test('a grammar and an adapter: BACKEND_INCAPABLE before the program is started', async () => {
    const backend = commandBackend('no-such-program-here');
    for (const more of [{ grammar: 'root ::= "a"' }, { jsonSchema: {} }, { adapter: { id: 'x' } }])
      await expect(ask(backend, asking(['x'], more))).rejects.toThrow(
        code('BACKEND_INCAPABLE', /command:no-such-program-here lacks/) as never,
      );
  });
});

describe('the program ends with the back end', () => {
  const isThere = (pid: number): boolean => {
    try {
      return process.kill(pid, 0);
    } catch {
      return false;
    }
  };
  const gone = async (pid: number): Promise<void> => {
    for (let i = 0; i < 100 && isThere(pid); i++) await sleep(50);
    expect(isThere(pid)).toBe(false);
  };
  const pidOf = async (backend: Backend): Promise<number> => {
    const [{ text }] = (await ask(backend, asking(['pid']))) as [Reply];
    return (JSON.parse(text) as { pid: number }).pid;
  };
  test('when it is disposed, also where it does not heed the end of its input', async () => {
    for (const stubborn of [[], ['stays']]) {
      const backend = open(['pid', ...stubborn]);
      const pid = await pidOf(backend);
      expect(isThere(pid)).toBe(true);
      await backend.dispose();
      await gone(pid);
      await expect(ask(backend, asking(['x']))).rejects.toThrow(
        code('OBJECT_DISPOSED', /was disposed/) as never,
      );
    }
  });
  test('when the request is cancelled or left', async () => {
    const backend = open(['told'], { replySeconds: 20 });
    const aborted = new AbortController();
    setTimeout(() => aborted.abort(), 300);
    await expect(ask(backend, asking(['say', 'hang'], { signal: aborted.signal }))).rejects.toThrow(
      code('ABORTED', /./) as never,
    );
    for await (const reply of backend.sample(asking(['say', 'hang'], { maxSequences: 2 }))) {
      expect(reply.text).toBe('yes');
      break;
    }
    expect((await ask(backend, asking(['say']))).map(words)).toEqual(['yes']);
  });
});
