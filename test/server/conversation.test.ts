/** Conversations with tools, in roles that a template takes. */
import { describe, expect, test } from '@jest/globals';
import { chatMessages } from '../../src/engine/messages.js';
import { PromptRenderer, type ChatMessage } from '../../src/engine/prompt-renderer.js';
import { withInstructions } from '../../src/server/openai/conversation.js';

const user = (content: string): ChatMessage => ({ role: 'user', content });
const assistant = (content: string): ChatMessage => ({ role: 'assistant', content });
const system = (content: string): ChatMessage => ({ role: 'system', content });
const call = (id: string) => ({ id, type: 'function', function: { name: 'f', arguments: '{}' } });
const asked = (content: string) => ({ role: 'user', content });
const result = (id: string) => ({ role: 'tool', tool_call_id: id, content: id });

/** In the manner of Gemma 2, Llama 2 and Mistral. */
const ALTERNATING =
  "{% if messages[0].role == 'system' %}{% if TAKES %}{% set messages = messages[1:] %}{% else %}{{ " +
  "raise_exception('no system') }}{% endif %}{% endif %}" +
  "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}" +
  "{{ raise_exception('roles') }}{% endif %}<{{ m.role }}>{{ m.content }}{% endfor %}";
const rendererOf = (chatTemplate: string): PromptRenderer =>
  new PromptRenderer({
    chatTemplate,
    controlTokens: [],
    bos: -1,
    eos: -1,
    ends: [],
    addBos: false,
    tokenize: () => new Int32Array(),
    isInjective: false,
  });

describe('what the model is told of tools', () => {
  test.each([
    ['before the conversation, as the system', true, [user('Hi')], [system('TOOLS'), user('Hi')]],
    [
      'behind what the system says',
      true,
      [system('Be brief.'), user('Hi')],
      [system('Be brief.\n\nTOOLS'), user('Hi')],
    ],
    [
      'before what the user says first',
      false,
      [user('Hi'), assistant('a'), user('b')],
      [user('TOOLS\n\nHi'), assistant('a'), user('b')],
    ],
    [
      'by itself where nobody has asked',
      false,
      [assistant('Hello.')],
      [user('TOOLS'), assistant('Hello.')],
    ],
    [
      'in the system message of a caller, which the template then refuses by itself',
      false,
      [system('s'), user('u')],
      [system('s\n\nTOOLS'), user('u')],
    ],
  ])('%s', (_, takesSystem, said, expected) => {
    expect(withInstructions(said, 'TOOLS', takesSystem)).toEqual(expected);
  });

  test('is rendered by a template without a system role', () => {
    const renderer = rendererOf(ALTERNATING.replace('TAKES', 'false'));
    const messages = withInstructions([user('Hi')], 'TOOLS', renderer.takesSystem);
    expect(renderer.render(messages, true).text).toBe('<user>TOOLS\n\nHi');
  });

  test('is not lost where a template leaves the system message out', () => {
    const renderer = rendererOf(ALTERNATING.replace('TAKES', 'true'));
    expect(
      renderer.render(withInstructions([user('Hi')], 'TOOLS', renderer.takesSystem), true).text,
    ).toBe('<user>TOOLS\n\nHi');
  });
});

describe('what calls gave, in one message with what the user says then', () => {
  test.each([
    [
      'one',
      [
        asked('a'),
        { role: 'assistant', content: '', tool_calls: [call('1')] },
        result('1'),
        asked('b'),
      ],
      3,
    ],
    [
      'two',
      [
        asked('a'),
        { role: 'assistant', content: 'c', tool_calls: [call('1'), call('2')] },
        result('1'),
        result('2'),
        asked('b'),
      ],
      3,
    ],
    [
      'twice',
      [
        asked('a'),
        { role: 'assistant', content: '', tool_calls: [call('1')] },
        result('1'),
        { role: 'assistant', content: '', tool_calls: [call('2')] },
        result('2'),
        asked('b'),
        { role: 'assistant', content: 'd' },
        asked('e'),
      ],
      7,
    ],
    [
      'and nothing more',
      [asked('a'), { role: 'assistant', content: '', tool_calls: [call('1')] }, result('1')],
      3,
    ],
  ])('%s', (_, messages, count) => {
    const said = chatMessages.parse(messages);
    expect(said).toHaveLength(count);
    expect(said.every(({ role }, i) => role === (i % 2 === 0 ? 'user' : 'assistant'))).toBe(true);
    expect(rendererOf(ALTERNATING.replace('TAKES', 'false')).render(said, true).text).toContain(
      '<tool_response>\n1\n</tool_response>',
    );
  });

  test('two messages of a user stay two', () => {
    expect(chatMessages.parse([asked('a'), asked('b')])).toEqual([user('a'), user('b')]);
  });
});
