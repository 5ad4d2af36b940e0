/** Evaluations of models elsewhere, through the command line: kills, equality, failures, limits. */
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { completion, error, FaultServer, send, type Answerer } from '../models/fault-server.js';
import { ServeProcess } from '../models/serve-process.js';
import { MAIN, runCli, runLinesMeanwhile } from '../cli/run-cli.js';

const KILLS = process.env.ISOPRO_FULL === '1' ? 10 : 2;
const BATCH = 3;

let folder: string;
let env: NodeJS.ProcessEnv;
const file = (name: string): string => path.join(folder, name);
beforeAll(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'isopro-remote-'));
  env = { ISOPRO_HOME: file('home') };
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const linesOf = (name: string): Record<string, unknown>[] =>
  existsSync(name)
    ? readFileSync(name, 'utf8')
        .split('\n')
        .flatMap((line) => {
          try {
            return [JSON.parse(line) as Record<string, unknown>];
          } catch {
            return []; // the last line of a killed process
          }
        })
    : [];

/** Depends on the question alone; some have the form of an answer. */
const replyTo: Answerer = async ({ content, response }) => {
  const digest = createHash('sha256').update(content).digest('hex');
  await new Promise((resolve) => setTimeout(resolve, 15));
  send(response, 200, completion(`<answer>${digest.slice(0, 8)}</answer>`));
};

const asked = (server: { readonly origin: string }, more: readonly string[] = []): string[] => [
  ...['eval', '--task', 'scheduling', '--set', 'dev', '--per-tier', '4', '--json'],
  ...['--backend', `${server.origin}#m`, '--batch', String(BATCH), ...more],
];

/** A report without what the clock and the number of requests say. */
const reportOf = (stdout: string): object => {
  const {
    seconds: _,
    spending: __,
    backend,
    ...rest
  } = JSON.parse(stdout) as {
    seconds: number;
    spending: object;
    backend: { endpoint: string };
  };
  return { ...rest, backend: { ...backend, endpoint: '' } };
};

test(`${KILLS} kills of an evaluation: the same report, and no recorded reply is asked for again`, async () => {
  let whole: object;
  let planned: number;
  {
    await using calm = await FaultServer.start(replyTo);
    const { stdout, code } = await runCli(asked(calm, ['--record', file('calm.jsonl')]), env);
    expect(code).toBe(0);
    whole = reportOf(stdout);
    planned = calm.total;
  }
  const record = file('killed.jsonl');
  const again: string[] = [];
  let recorded = new Set<string>();
  await using server = await FaultServer.start((question) => {
    if (recorded.has(question.content)) again.push(question.content);
    return replyTo(question);
  });
  const flags = asked(server, ['--record', record]);
  for (let kill = 1; kill <= KILLS; kill++) {
    const until = Math.ceil((planned * kill) / (KILLS + 1));
    const child = spawn(process.execPath, [MAIN, ...flags], {
      env: { ...process.env, ...env },
      stdio: 'ignore',
    });
    const ended = once(child, 'exit');
    while (linesOf(record).length < until && child.exitCode === null)
      await new Promise((resolve) => setTimeout(resolve, 2));
    child.kill('SIGKILL');
    await ended;
    recorded = new Set(
      linesOf(record).map(
        ({ prompt }) => (prompt as { messages: { content: string }[] }).messages.at(-1)!.content,
      ),
    );
    expect(recorded.size).toBeGreaterThanOrEqual(until);
    expect(recorded.size).toBeLessThan(planned);
  }
  const { stdout, code } = await runCli(flags, env);
  expect(code).toBe(0);
  expect(reportOf(stdout)).toEqual(whole);
  expect(again).toEqual([]);
  expect(server.total).toBeLessThanOrEqual(planned + KILLS * BATCH);
  const { spending } = JSON.parse(stdout) as { spending: { requests: number; recorded: number } };
  expect(spending.requests + spending.recorded).toBe(planned);
});

test('greedy replies of this project over its own server are those of the model here', async () => {
  const flags = ['eval', '--set', 'dev', '--per-tier', '2', '--max-tokens', '48', '--json'];
  await using server = await ServeProcess.start('tiny', 'served-tiny');
  const [here, there] = [file('here.jsonl'), file('there.jsonl')];
  const results = [
    await runCli([...flags, '--model', 'tiny', '--threads', '1', '--out', here], env),
    await runCli(
      [
        ...[...flags, '--out', there, '--backend', `${server.url}#served-tiny`],
        ...['--request-body', '{"deterministic": true}'],
      ],
      env,
    ),
  ];
  expect(results.map(({ code, stderr }) => [code, code === 0 ? '' : stderr])).toEqual([
    [0, ''],
    [0, ''],
  ]);
  const said = (name: string): unknown[] =>
    linesOf(name)
      .map(({ id, text, finish, kind, promptTokens, tokens }) => ({
        id,
        text,
        finish,
        kind,
        promptTokens,
        tokens,
      }))
      .sort((a, b) => String(a.id).localeCompare(String(b.id)));
  expect(said(there)).toEqual(said(here));
  expect(said(here).length).toBeGreaterThan(5);
  const [own, remote] = results.map(({ stdout }) => JSON.parse(stdout) as Record<string, unknown>);
  expect(remote!.accuracy).toEqual(own!.accuracy);
  expect(remote!.backend).toMatchObject({
    kind: 'server',
    name: 'served-tiny',
    served: ['served-tiny'],
  });
  // without --record the replies are in the home of this project
  expect(
    readdirSync(file('home/replies')).filter((name) => /^eval-[0-9a-f]{16}\.jsonl$/.test(name)),
  ).toHaveLength(1);
});

describe('what the command says', () => {
  test('failures, refusals and limits', async () => {
    let refused = 0;
    await using server = await FaultServer.start(({ nth, response, content }) => {
      if (content.includes('filter'))
        return send(
          response,
          200,
          completion('', {
            choices: [
              {
                index: 0,
                message: { role: 'assistant', content: 'no' },
                finish_reason: 'content_filter',
              },
            ],
          }),
        );
      if (content.includes('broken'))
        return send(response, 400, error(`no such thing, ${nth}, ${refused++}`));
      return send(response, 200, completion('fine'));
    });
    const backend = ['--backend', `${server.origin}#m`];
    const prompts = (...contents: string[]) => contents.flatMap((content) => ['--prompt', content]);
    const generate = ['generate', '--json', ...backend, '--record', file('said.jsonl')];
    const lines = await runLinesMeanwhile(
      [
        [...generate, ...prompts('a', 'broken', 'a filter')],
        [...generate, ...prompts('a', 'broken', 'broken too')],
        [...generate, ...prompts('a', 'new'), '--max-requests', '1', '--batch', '1'],
        [...generate, '--prompt', 'a', '--grammar', 'x.gbnf'],
        [...generate, '--prompt', 'a', '--max-cost', '1'],
        ['generate', '--json', '--prompt', 'a', '--backend', 'nobody:m'],
        ['generate', '--json', '--prompt', 'a', '--backend', 'openai:m'],
        ['generate', '--json', '--prompt', 'a', '--backend', 'http://example.test/v1#m'],
        ['eval', '--backend', 'recorded:x', '--max-requests', '3'],
        ['eval', ...backend, '--adapter', 'mine'],
        ['eval', ...backend, '--constrained'],
        ['eval', '--model', 'openai:m'],
      ],
      folder,
      { ...env, OPENAI_API_KEY: '' },
    );
    const [some, many, limited, ...wrong] = lines;
    expect(some!.code).toBe(0);
    expect(
      some!.stdout
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line)),
    ).toEqual([
      expect.objectContaining({
        promptIndex: 0,
        text: 'fine',
        finish: 'stop',
        promptTokens: 7,
        tokens: 3,
      }),
      expect.objectContaining({
        promptIndex: 1,
        finish: 'failed',
        failure: {
          kind: 'status',
          status: 400,
          attempts: 1,
          message: expect.stringMatching(/no such thing/),
        },
      }),
      expect.objectContaining({ promptIndex: 2, text: 'no', finish: 'refused' }),
    ]);
    expect(many!.code).toBe(1);
    expect(many!.stderr).toMatch(/BACKEND_FAILED|2 of 3 samples have no reply: status 400/);
    expect(limited!.code).toBe(0); // `a` was recorded: one request suffices
    expect(wrong.map(({ code }) => code)).toEqual(
      wrong.map(({ code }, i) => (i === 3 ? 1 : 2) || code),
    );
    const said = [
      /--grammar has no effect with the back end server/,
      /--max-cost: it needs .*price/,
      /--backend: expected local, local:MODEL/,
      /the variable OPENAI_API_KEY, the key of openai, is not set/,
      /--backend: http to example\.test is not encrypted/,
      /--max-requests: it has no effect with the back end recorded/,
      /--adapter: it has no effect with the back end server/,
      /--constrained: the back end server knows no grammar/,
      /openai:m is a back end: give it with --backend/,
    ];
    for (const [i, pattern] of said.entries()) expect(wrong[i]!.stderr).toMatch(pattern);
  });

  test('modes without training ask elsewhere; the loop and what needs log-probabilities do not', async () => {
    await using server = await FaultServer.start(replyTo);
    const asking = [
      ...['run', '--task', 'scheduling', '--test-size', '1', '--json'],
      ...['--iterations', '1', '--rollouts', '8', '--samples', '4', '--steps-per-iteration', '1'],
      ...['--backend', `${server.origin}#m`],
    ];
    const modes = (...names: string[]) => names.flatMap((name) => ['--mode', name]);
    const [table, likeliest, trained] = await runLinesMeanwhile(
      [
        [...asking, ...modes('zero-shot', 'multi-turn', 'majority')],
        [...asking, ...modes('best-of-k')],
        asking,
      ],
      folder,
      env,
    );
    expect([table!.code, table!.code === 0 ? '' : table!.stderr]).toEqual([0, '']);
    const { model, methods, spending } = JSON.parse(table!.stdout) as {
      model: string;
      methods: { method: string; test: { n: number } }[];
      spending: { requests: number };
    };
    expect([model, methods.map(({ method }) => method)]).toEqual([
      'server:m',
      ['zero-shot', 'multi-turn', 'majority'],
    ]);
    expect(spending.requests).toBe(server.total);
    expect(likeliest!.stderr).toMatch(/server:m lacks logprobs, which best-of-k needs/);
    expect(trained!.stderr).toMatch(
      /lacks tokenIds, logprobs, seeds, adapters, which the mode isopro needs/,
    );
    expect([likeliest!.code, trained!.code]).toEqual([1, 1]);
  });

  test('what samples or scores needs a local model, and says so before it writes anything', async () => {
    const out = file('never');
    const lines = await runLinesMeanwhile(
      [
        ['run', '--model', 'openai:gpt', '--out', out],
        [
          'run',
          '--model',
          'tiny',
          '--algorithm',
          'distill',
          '--teacher',
          'http://127.0.0.1:1/v1#m',
          '--out',
          out,
        ],
        ['ablate', '--model', 'ollama:llama', '--out', out],
        ['train', '--model', 'anthropic:claude', '--data', 'rows.jsonl', '--out', out],
        ['judge', folder, '--model', 'huggingface:m'],
      ],
      folder,
      env,
    );
    for (const { code, stderr } of lines) {
      expect(stderr).toMatch(/the back end \S+ lacks [\w, ]+, which [\w ]+ needs/);
      expect(code).toBe(1);
    }
    expect(existsSync(out)).toBe(false);
  });
});
