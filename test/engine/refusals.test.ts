/**
 * What the system refuses, an allocation, a mapping, a thread, a file, is a typed error, and what
 * was called on is as before.
 */
import { spawn, spawnSync } from 'node:child_process';
import path from 'node:path';
import { expect, test } from '@jest/globals';
import { folder, full, syntheticModel } from './fixtures.js';

const file = syntheticModel({ architecture: 'llama', type: 'Q8_0', seed: 21n });
// Where ggml repacks quantised matrices for AMX, the refusal of the few bytes with which
// std::thread starts ends the process: the vector of threads is destroyed while some of them run.
// F32 is not repacked.
const notRepacked = syntheticModel({ architecture: 'llama', type: 'F32', seed: 21n });
const library = path.join(folder, 'refusals.so');

/**
 * What is wrong with a campaign of refusals.mjs; a process that ended is one line, and the campaign
 * goes on behind it.
 */
async function campaign(
  call: string,
  kinds: string,
  mode: 1 | 2,
  stride: number,
): Promise<{ wrong: string[]; requests: number; grown: number }> {
  const wrong: string[] = [];
  let from = 1;
  for (;;) {
    const args = [
      path.resolve('test/engine/refusals.mjs'),
      call,
      kinds,
      String(mode),
      String(from),
      '100000',
      String(stride),
      kinds.includes('a') ? notRepacked : file,
    ];
    const child = spawn(process.execPath, args, { env: { ...process.env, LD_PRELOAD: library } });
    let text = '';
    for (const stream of [child.stdout, child.stderr])
      stream.setEncoding('utf8').on('data', (part: string) => (text += part));
    const [code, signal] = await new Promise<[number | null, string | null]>((resolve) =>
      child.once('close', (...end) => resolve(end)),
    );
    wrong.push(...(text.match(/^WRONG .*(\n {4}at .*)*/gm) ?? []));
    const done = /^done (\d+)$/m.exec(text);
    const grown = Number(/^resident (-?\d+) MB more$/m.exec(text)?.[1]);
    if (done !== null) return { wrong, requests: Number(done[1]), grown };
    const last = Number(
      text
        .match(/^request (\d+)$/gm)
        ?.at(-1)
        ?.slice(8) ?? NaN,
    );
    wrong.push(
      `${call}: the process ended (${signal ?? code}) at request ${last}: ${text.slice(-600)}`,
    );
    if (Number.isNaN(last) || wrong.length > 20) return { wrong, requests: last, grown };
    from = last + stride;
  }
}

const short = ['load', 'generate', 'step'];
const calls = [
  'load',
  'create',
  'inspect',
  'generate',
  'score',
  'hidden',
  'tokenize',
  'step',
  'evaluate',
  'captureBoundary',
  'raiseRank',
  'recycle',
  'snapshot',
  'adapter',
  'importAdapter',
];
const cases = calls.flatMap((call) => [
  ...(full || short.includes(call)
    ? [
        {
          call,
          kinds: 'a',
          mode: 1 as const,
          stride: full ? 1 : 211,
          what: 'one allocation is refused',
        },
      ]
    : []),
  ...(full
    ? [
        {
          call,
          kinds: 'am',
          mode: 2 as const,
          stride: 11,
          what: 'all memory from some moment on is refused',
        },
      ]
    : []),
  ...(['load', 'generate', ...(full ? ['create', 'score', 'hidden', 'adapter'] : [])].includes(call)
    ? [{ call, kinds: 't', mode: 2 as const, stride: 1, what: 'threads are refused' }]
    : []),
  ...(['load', 'inspect', 'create', ...(full ? ['adapter', 'importAdapter'] : [])].includes(call)
    ? [{ call, kinds: 'o', mode: 1 as const, stride: 1, what: 'a file is refused' }]
    : []),
]);

(process.platform === 'linux' ? test : test.skip)('the library that refuses can be built', () => {
  const { status, stderr } = spawnSync(
    'c++',
    [
      '-std=c++17',
      '-O1',
      '-fPIC',
      '-shared',
      '-o',
      library,
      path.resolve('test/engine/refusals.cpp'),
      '-ldl',
    ],
    { encoding: 'utf8' },
  );
  expect([status, stderr]).toEqual([0, '']);
});

(process.platform === 'linux' ? test : test.skip).each(cases)(
  '$call where $what',
  async ({ call, kinds, mode, stride }) => {
    expect(await campaign(call, kinds, mode, stride)).toMatchObject({ wrong: [] });
  },
  900_000,
);

(process.platform === 'linux' ? test : test.skip)(
  'calls that were refused an allocation leave no memory behind',
  async () => {
    const { wrong, grown } = await campaign('cancelled', 'a', 1, full ? 7 : 97);
    expect(wrong).toEqual([]);
    expect(grown).toBeLessThan(100);
  },
  900_000,
);
