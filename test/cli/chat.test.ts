/**
 * `chat` and `generate --stream`: a dialogue on a terminal and through a pipe, replies as they are
 * sampled.
 */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { PassThrough } from 'node:stream';
import { afterAll, describe, expect, test } from '@jest/globals';
import { chat } from '../../src/cli/chat/session.js';
import { abortError } from '../../src/errors.js';
import {
  Conversation,
  loadModel,
  type ChatMessage,
  type ConversationSettings,
  type HostedAdapter,
  type HostReply,
  type HostRequest,
  type TokenEvent,
} from '../../src/index.js';
import { writeSyntheticAdapter } from '../models/adapter.js';
import { writeSyntheticModel } from '../models/synthetic.js';
import { CommandLines, MAIN } from './run-cli.js';

const folder = mkdtempSync(path.join(tmpdir(), 'isopro-chat-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const commands = new CommandLines();
afterAll(() => commands.end());
const model = path.join(folder, 'model.gguf');
const shape = writeSyntheticModel(model, { architecture: 'qwen2', type: 'Q8_0', seed: 2n });

/**
 * Says its last message back in two tokens; with `hang`, waits behind the first one until it is
 * aborted.
 */
class Echo {
  readonly asked: (readonly ChatMessage[])[] = [];
  async *stream({
    messages: asked = [],
    signal,
  }: HostRequest): AsyncGenerator<TokenEvent, HostReply, undefined> {
    const messages = asked as readonly ChatMessage[]; // of a conversation, which has read them
    this.asked.push(messages);
    const { content } = messages.at(-1)!;
    const token = { tokenId: 1, logprob: 0, sampledLogprob: 0 };
    yield { ...token, text: 'you said ' };
    if (content === 'hang') {
      if (!signal!.aborted) await once(signal!, 'abort');
      throw abortError('the request was cancelled', signal);
    }
    yield { ...token, text: content };
    return { text: `you said ${content}`, finish: 'stop' } as HostReply;
  }
}

/** Types on a terminal that is none, and waits for what it shows. */
function terminal(echo: Echo, settings: ConversationSettings = {}) {
  const [input, output] = [new PassThrough(), new PassThrough({ encoding: 'utf8' })];
  let shown = '';
  output.on('data', (data: string) => (shown += data));
  const session = chat(new Conversation(echo, { system: 'be brief', ...settings }), {
    input,
    output,
    terminal: true,
  });
  const until = async (text: string): Promise<void> => {
    for (
      const begun = Date.now();
      !shown.includes(text);
      await new Promise((resolve) => setTimeout(resolve, 2))
    )
      if (Date.now() - begun > 20_000)
        throw new Error(`${JSON.stringify(text)} is not in ${JSON.stringify(shown)}`);
    shown = shown.slice(shown.indexOf(text) + text.length);
  };
  return { session, until, type: (keys: string) => input.write(keys) };
}

describe('a conversation', () => {
  const read = async (reply: AsyncGenerator<TokenEvent, HostReply, undefined>): Promise<void> => {
    while ((await reply.next()).done !== true);
  };

  test('is saved and taken up again', async () => {
    const echo = new Echo();
    const first = new Conversation(echo, { system: 'be brief' });
    await read(first.reply('one'));
    const saved = JSON.parse(JSON.stringify(first)) as ChatMessage[];
    expect(saved).toEqual(first.messages);
    const again = new Conversation(echo, { system: 'be brief', messages: saved });
    await read(again.reply('two'));
    expect(echo.asked[1]).toEqual([...saved, { role: 'user', content: 'two' }]);
    expect(new Conversation(echo, { messages: saved }).messages).toEqual(saved);
  });

  test('has one reply at a time', async () => {
    const conversation = new Conversation(new Echo());
    const first = conversation.reply('one');
    await first.next();
    await expect(conversation.reply('two').next()).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
    });
    await read(first);
    await read(conversation.reply('three'));
    expect(
      conversation.messages.filter(({ role }) => role === 'user').map(({ content }) => content),
    ).toEqual(['one', 'three']);
  });
});

describe('a dialogue', () => {
  test('keeps what was said, and forgets it on /clear', async () => {
    const echo = new Echo();
    const { session, until, type } = terminal(echo);
    for (const line of ['one', 'two']) {
      type(`${line}\r`);
      await until(`you said ${line}`);
    }
    type('/clear\rthree\r');
    await until('you said three');
    type('/exit\r');
    expect(await session).toBe(true);
    const said = (...lines: string[]): ChatMessage[] => [
      { role: 'system', content: 'be brief' },
      ...lines.map((content, i) => ({
        role: i % 2 === 0 ? ('user' as const) : ('assistant' as const),
        content,
      })),
    ];
    expect(echo.asked).toEqual([said('one'), said('one', 'you said one', 'two'), said('three')]);
  });

  test('with an adapter that acts from the reply on says after the first reply how to continue', async () => {
    const adapter = { actsFromReply: true } as HostedAdapter;
    const { session, until, type } = terminal(new Echo(), { adapter });
    type('one\r');
    await until('you said one');
    type('two\r');
    await until('first turn of a conversation only. /clear starts a new conversation.');
    type('/clear\rthree\r');
    await until('you said three');
    type('/exit\r');
    expect(await session).toBe(true);
  });

  test('Ctrl-C ends a reply, whose beginning stays, and not the session; at the prompt it says how to leave', async () => {
    const echo = new Echo();
    const { session, until, type } = terminal(echo);
    type('hang\r');
    await until('you said ');
    type('\u0003');
    await until('stopped by Ctrl-C');
    type('\u0003');
    await until('/exit');
    type('go on\r');
    await until('you said go on');
    type('\u0004');
    expect(await session).toBe(true);
    expect(echo.asked.at(-1)!.map(({ content }) => content)).toEqual([
      'be brief',
      'hang',
      'you said ',
      'go on',
    ]);
  });

  test('what is typed while a reply is written does not run into it: it is shown and answered behind', async () => {
    const echo = new Echo();
    const { session, until, type } = terminal(echo);
    type('hang\r');
    await until('you said ');
    type('next\rha');
    type('\u0003');
    await until('\n(stopped by Ctrl-C)\n> next\nyou said next\n');
    await until('> ha');
    type('lf\r');
    await until('you said half');
    type('/exit\r');
    expect(await session).toBe(true);
    expect(echo.asked.map((said) => said.at(-1)!.content)).toEqual(['hang', 'next', 'half']);
  });

  test('through a pipe, lines that come while a reply is written are answered and not shown', async () => {
    const [input, output] = [new PassThrough(), new PassThrough({ encoding: 'utf8' })];
    let shown = '';
    output.on('data', (data: string) => (shown += data));
    const session = chat(new Conversation(new Echo()), { input, output, terminal: false });
    const begun = Date.now();
    input.write('hang\n');
    while (shown === '' && Date.now() - begun < 20_000)
      await new Promise((resolve) => setTimeout(resolve, 2));
    input.end('next\n');
    // the line has come before the reply ends
    await new Promise((resolve) => setTimeout(resolve, 20));
    process.emit('SIGINT');
    expect(await session).toBe(true);
    expect(shown).toBe('you said \nyou said next\n');
  });

  test('what a model says cannot steer the terminal', async () => {
    const { session, until, type } = terminal(new Echo());
    type('a\u009b2Jb\r');
    await until('you said a[U+009B]2Jb');
    type('/exit\r');
    await session;
  });

  test('a reply whose caller leaves stays as far as it went; one that fails leaves nothing', async () => {
    const conversation = new Conversation(new Echo());
    for await (const token of conversation.reply('one')) {
      expect(token.text).toBe('you said ');
      break;
    }
    expect(conversation.messages.map(({ content }) => content)).toEqual(['one', 'you said ']);
    const broken = new Conversation({
      async *stream() {
        yield { tokenId: 1, logprob: 0, sampledLogprob: 0, text: 'half' };
        throw new Error('broken');
      },
    });
    for (const prompt of ['one', 'two']) {
      const reply = broken.reply(prompt);
      expect(await reply.next()).toMatchObject({ done: false });
      await expect(reply.next()).rejects.toThrow('broken');
    }
    expect(broken.messages).toEqual([]);
  });
});

describe('through a pipe', () => {
  const common = ['--model', model, '--threads', '1', '--max-tokens', '6', '--temperature', '0'];

  test('chat answers line by line, each with what was said before, up to /exit', async () => {
    const { status, stdout, stderr } = spawnSync(
      process.execPath,
      [MAIN, 'chat', ...common, '--json'],
      {
        input: 'hello\n\nand you?\n/exit\nnever\n',
        encoding: 'utf8',
      },
    );
    expect([status, stderr]).toEqual([0, '']);
    const replies = stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as { prompt: string; text: string });
    expect(replies.map(({ prompt }) => prompt)).toEqual(['hello', 'and you?']);
    await using alone = await loadModel(model, { threads: 1 });
    const messages: ChatMessage[] = [];
    for (const { prompt, text } of replies) {
      messages.push({ role: 'user', content: prompt });
      for await (const rollout of alone.generate({
        prompts: [{ messages }],
        maxTokens: 6,
        sampling: { temperature: 0 },
      })) {
        expect(text).toBe(rollout.text);
      }
      messages.push({ role: 'assistant', content: text });
    }
  });

  test('generate --stream prints the tokens of the answer without it, one by one', async () => {
    const args = ['generate', ...common, '--prompt', 'hello'];
    const [whole, streamed, plain] = [
      await commands.run([...args, '--json']),
      await commands.run([...args, '--stream', '--json']),
      await commands.run([...args, '--stream']),
    ];
    const answer = JSON.parse(whole.stdout) as { text: string; tokenIds: number[]; seed: string };
    const lines = streamed.stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as Record<string, unknown>);
    expect(lines.slice(0, -1).map(({ tokenId }) => tokenId)).toEqual(answer.tokenIds);
    expect(lines.at(-1)).toMatchObject({
      text: answer.text,
      tokenIds: answer.tokenIds,
      seed: answer.seed,
    });
    expect(plain.stdout).toBe(`${answer.text}\n`);
    expect(await commands.run([...args, '--stream', '--samples', '2'])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('--stream'),
    });
  });

  test('neither a model nor a run, and an adapter that is none: a clear line', async () => {
    expect(await commands.run(['chat'])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('--model'),
    });
    const unknown = await commands.run(['chat', '--adapter', '3f2a']);
    expect(unknown).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('error RUN_NOT_FOUND'),
    });
  });

  test.each(['generate --prompt x', 'eval --per-tier 1', 'chat'])(
    '%s guesses no model for an adapter that names none',
    async (command) => {
      const adapter = path.join(folder, 'alone.gguf');
      writeSyntheticAdapter(adapter, shape);
      const { code, stderr } = await commands.run([...command.split(' '), '--adapter', adapter]);
      expect([code, stderr]).toEqual([
        2,
        expect.stringContaining('Give --model, or a run or a name in the registry as --adapter.'),
      ]);
    },
  );

  test('an adapter that names another base is used with a note, and with its own without', async () => {
    const adapter = path.join(folder, 'named.gguf');
    const args = ['--model', model, '--adapter', adapter, '--threads', '1'];
    const sha256 = createHash('sha256').update(readFileSync(model)).digest('hex');
    const asked = ['generate', ...args, '--prompt', 'x', '--max-tokens', '2'];
    writeSyntheticAdapter(adapter, shape, { base: sha256 });
    expect(await commands.run(asked)).toMatchObject({ code: 0, stderr: '' });
    writeSyntheticAdapter(adapter, shape, { base: [...sha256].reverse().join('') });
    const told = (stderr: string): string => stderr.replace(/\s+/g, ' ');
    const note = expect.stringMatching(
      /^named\.gguf was trained on a different model file than model\.gguf \(SHA-256 \w{12}…\): its answers/,
    );
    for (const command of [
      asked,
      [...asked, '--stream'],
      ['chat', ...args],
      [
        'adapters',
        'use',
        ...args.slice(0, 2),
        adapter,
        '--for',
        'ollama',
        '--out',
        path.join(folder, 'use'),
      ],
    ]) {
      const { status, stderr } = spawnSync(process.execPath, [MAIN, ...command], {
        input: '',
        encoding: 'utf8',
      });
      expect([status, told(stderr)]).toEqual([0, note]);
    }
  });
});
