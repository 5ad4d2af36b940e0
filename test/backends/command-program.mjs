/**
 * A program for `command:`. Its first argument says how it behaves; a prompt may, too: it is the
 * content of the last message.
 */
import { createInterface } from 'node:readline';

const [, , behaviour = 'echo', argument = ''] = process.argv;
const write = (value) => process.stdout.write(`${JSON.stringify(value)}\n`);
const first = { seen: 0 };

const replies = {
  echo: ({ id, messages }) => write({ id, text: `you said: ${messages.at(-1).content}` }),
  whole: ({ id, ...request }) =>
    write({ id, text: JSON.stringify(request), tokens: 3, promptTokens: 7 }),
  /** Two at a time, the later first. */
  pairs: ({ id, messages }) => {
    if (first.waiting === undefined) first.waiting = { id, text: messages.at(-1).content };
    else {
      write({ id, text: messages.at(-1).content, finish: 'length' });
      write(first.waiting);
      first.waiting = undefined;
    }
  },
  pid: ({ id }) => write({ id, text: JSON.stringify({ pid: process.pid }) }),
  environment: ({ id }) => write({ id, text: JSON.stringify(process.env) }),
  arguments: ({ id }) => write({ id, text: JSON.stringify(process.argv.slice(3)) }),
  /** By what the prompt says, in order: for requests that come one after the other. */
  told: ({ id, messages }) => {
    const told = messages.at(-1).content;
    const acts = {
      say: () => write({ id, text: 'yes' }),
      error: () => write({ id, error: argument || 'no credit left' }),
      crash: () => {
        process.stderr.write('TypeError: it broke\n');
        process.exit(3);
      },
      hang: () => {
        first.hangs = true;
      },
      garbage: () => process.stdout.write('Thinking about it...\n'),
      number: () => write({ id: String(id), text: 'x' }),
      textless: () => write({ id }),
      huge: () => process.stdout.write(`{"id": ${id}, "text": "${'x'.repeat(17 * 2 ** 20)}`),
      half: () => process.stdout.write(`{"id": ${id}, "te`, () => process.exit(0)),
      other: () => write({ id: id + 1000, text: 'x' }),
      twice: () => process.stdout.write(`{"id": ${id}, "text": "a"}\n{"id": ${id}, "text": "b"}\n`),
      deaf: () => process.stdin.destroy(),
    };
    if (first.hangs !== true) acts[told.split(' ')[0]]();
  },
  silent: () => {},
};

if (behaviour === 'end') {
  process.stderr.write('cannot find the model\n');
  process.exit(Number(argument || 1));
}
const lines = createInterface({ input: process.stdin });
lines.on('line', (line) => replies[behaviour](JSON.parse(line)));
// `stays`: it does not end with its input
if (argument === 'stays') setInterval(() => {}, 1000);
