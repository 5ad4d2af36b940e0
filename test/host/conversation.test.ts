/**
 * What a conversation asks its model, and what stays of a reply: the model is one that notes what
 * it is asked.
 */
import { describe, expect, test } from '@jest/globals';
import { abortError, IsoproError } from '../../src/errors.js';
import {
  Conversation,
  type ChatMessage,
  type HostedAdapter,
  type HostReply,
  type HostRequest,
  type TokenEvent,
} from '../../src/index.js';

type Said = readonly ChatMessage[];
const told = (role: ChatMessage['role'], content: string): ChatMessage => ({ role, content });
const [system, example, solved] = [
  told('system', 'be brief'),
  told('user', '1 + 1'),
  told('assistant', '2'),
];

/** Says the words that it is given, then replies, or throws. */
class Model {
  readonly asked: HostRequest[] = [];
  closed = 0;
  constructor(
    readonly words: readonly string[],
    readonly error?: Error,
  ) {}

  async *stream(request: HostRequest): AsyncGenerator<TokenEvent, HostReply, undefined> {
    this.asked.push(request);
    try {
      for (const text of this.words) yield { tokenId: 1, logprob: 0, sampledLogprob: 0, text };
      if (this.error !== undefined) throw this.error;
      // a stop string is taken from the reply, not from its tokens
      return { text: this.words.join('').trimEnd(), finish: 'stop' } as HostReply;
    } finally {
      this.closed++;
    }
  }
}

async function read(
  reply: AsyncGenerator<TokenEvent, HostReply, undefined>,
): Promise<{ readonly words: string[]; readonly reply: HostReply }> {
  const words: string[] = [];
  for (;;) {
    const next = await reply.next();
    if (next.done === true) return { words, reply: next.value };
    words.push(next.value.text);
  }
}

describe('what is asked', () => {
  test('system and examples stand before what was said, whose own system message they replace', async () => {
    const model = new Model(['yes']);
    const before = [example, solved];
    const messages = [told('system', 'of old'), told('user', 'a'), told('assistant', 'b')];
    const conversation = new Conversation(model, { system: 'be brief', before, messages });
    const opening: Said = [system, example, solved, ...messages.slice(1)];
    expect(conversation.messages).toEqual(opening);
    await read(conversation.reply('c'));
    await read(conversation.reply('d'));
    const [c, yes, d] = [told('user', 'c'), told('assistant', 'yes'), told('user', 'd')];
    expect(model.asked.map((request) => request.messages)).toEqual([
      [...opening, c],
      [...opening, c, yes, d],
    ]);
    expect(conversation.messages).toEqual([...opening, c, yes, d, yes]);
    conversation.clear();
    expect(conversation.messages).toEqual([system, example, solved]);
  });

  test('without a system of its own it keeps that of the messages; a system that comes later, too', () => {
    const first = [told('system', 'of old'), told('user', 'a')];
    expect(new Conversation(new Model([]), { messages: first }).messages).toEqual(first);
    const later = [told('user', 'a'), told('system', 'now')];
    const both = new Conversation(new Model([]), { system: 'be brief', messages: later });
    expect(both.messages).toEqual([system, ...later]);
    expect(new Conversation(new Model([])).messages).toEqual([]);
  });

  test('each prompt has the settings, its own signal and a number, which goes on from what the user said', async () => {
    const model = new Model(['yes']);
    const messages = [told('user', 'a'), told('assistant', 'b'), told('user', 'c')];
    const sampling = { temperature: 0.5 };
    const before = [example, solved];
    const conversation = new Conversation(model, { before, messages, sampling, maxTokens: 9 });
    const { signal } = new AbortController();
    await read(conversation.reply('d', { signal }));
    conversation.clear();
    await read(conversation.reply('e'));
    const [first, second] = model.asked.map(({ messages: _, ...rest }) => rest);
    expect(first).toEqual({ sampling, maxTokens: 9, id: '2', signal });
    expect(second).toEqual({ sampling, maxTokens: 9, id: '3' });
  });

  test('a message that is none is named by its list and its place', () => {
    const wrong = [example, { role: 'nobody', content: 'x' }] as never;
    for (const option of ['before', 'messages'] as const)
      expect(() => new Conversation(new Model([]), { [option]: wrong })).toThrow(
        expect.objectContaining({
          code: 'INVALID_ARGUMENT',
          message: expect.stringContaining(`settings.${option}.1.role`),
        }),
      );
  });
});

describe('what stays', () => {
  test('the text of a reply that came to its end, not its tokens, and the reply is given back', async () => {
    const model = new Model(['a', 'b ', ' ']);
    const conversation = new Conversation(model);
    const { words, reply } = await read(conversation.reply('x'));
    expect([words, reply.text]).toEqual([['a', 'b ', ' '], 'ab']);
    expect(conversation.messages).toEqual([told('user', 'x'), told('assistant', 'ab')]);
    expect(JSON.parse(JSON.stringify(conversation))).toEqual(conversation.messages);
  });

  test.each<[string, readonly string[], Error | undefined, string | null]>([
    ['an abort, the beginning', ['a', 'b'], abortError('ended', undefined), 'ab'],
    ['a dispose, the beginning', ['a'], new IsoproError('OBJECT_DISPOSED', 'gone'), 'a'],
    ['an abort before the first word, nothing', [], abortError('ended', undefined), null],
    ['a failure, nothing', ['a', 'b'], new IsoproError('NUMERIC_FAILURE', 'bad'), null],
    ['a defect, nothing', ['a'], new Error('bad'), null],
    ['a reply without words, nothing', [], undefined, null],
  ])('of %s', async (_, words, error, stays) => {
    const model = new Model(words, error);
    const conversation = new Conversation(model, { system: 'be brief' });
    const end = read(conversation.reply('x'));
    if (error === undefined) await end;
    else await expect(end).rejects.toBe(error);
    expect(conversation.messages).toEqual([
      system,
      ...(stays === null ? [] : [told('user', 'x'), told('assistant', stays)]),
    ]);
    expect(model.closed).toBe(1);
    await read(conversation.reply('y')).catch(() => undefined); // it takes the next prompt
    expect(model.asked.map(({ id }) => id)).toEqual(['0', '1']);
  });

  test('a caller that leaves ends the reply of the model', async () => {
    const model = new Model(['a', 'b', 'c']);
    const conversation = new Conversation(model);
    const reply = conversation.reply('x');
    await reply.next();
    await reply.next();
    const second = conversation.reply('y').next();
    await expect(second).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
    expect(model.closed).toBe(0);
    await reply.return(undefined as never);
    expect(model.closed).toBe(1);
    expect(conversation.messages).toEqual([told('user', 'x'), told('assistant', 'ab')]);
  });
});

test('an adapter that acts from the reply on answers the first turn only, after solved examples', async () => {
  const adapter = { actsFromReply: true } as HostedAdapter;
  const refused = {
    code: 'INVALID_ARGUMENT',
    message: expect.stringContaining('first turn of a conversation') as unknown,
  };
  const model = new Model(['yes']);
  const conversation = new Conversation(model, { before: [example, solved], adapter });
  await read(conversation.reply('a'));
  await expect(read(conversation.reply('b'))).rejects.toMatchObject(refused);
  const said = [told('user', 'a'), told('assistant', 'yes')];
  expect(conversation.messages).toEqual([example, solved, ...said]);
  expect(model.asked).toHaveLength(1);
  await expect(
    read(new Conversation(model, { messages: said, adapter }).reply('b')),
  ).rejects.toMatchObject(refused);
  conversation.clear();
  await read(conversation.reply('b'));
  expect(model.asked.map(({ id }) => id)).toEqual(['0', '1']);
});
