import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { createConnection, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals';
import Database from 'better-sqlite3';
import { witnessInProcess } from '../../bench/log.js';
import { hasEnded } from '../../src/files.js';
import { parseCheckpoint } from '../../src/log/checkpoint.js';
import { drawnSeed, isDrawnBy, isDrawOf, parseDraw } from '../../src/log/draw.js';
import { EventLog } from '../../src/log/event-log.js';
import { consistencyProof, rootOf } from '../../src/log/merkle.js';
import { commitToNonce, parseTicket } from '../../src/log/ticket.js';
import { WitnessClient } from '../../src/log/witness-client.js';
import { formatNote } from '../../src/log/signed-note.js';
import { WITNESS_KEY_NAME } from '../../src/log/trusted-key.js';
import {
  openWitnessKey,
  publicKeyFile,
  readTrustedKey,
  witnessFile,
} from '../../src/log/witness-key.js';
import {
  identityText,
  witnessAddress,
  witnessProcess,
  witnessProcessFile,
} from '../../src/log/witness-protocol.js';
import { runWitness } from '../../src/log/witness-server.js';
import { verifyRun } from '../../src/log/local-trust.js';
import { leafDigest, temporaryFolder } from '../models/signed-log.js';
import { RUN_STREAMS } from '../../src/run-folder/streams.js';

const RUN = 'ab12'.repeat(8);
const OTHER = 'cd34'.repeat(8);
const program = fileURLToPath(new URL('../../dist/program/main.js', import.meta.url));
const leaves = Array.from({ length: 60 }, (_, i) => leafDigest(Buffer.of(i)));
const head = (from: number, to: number, final = false) => ({
  runId: RUN,
  size: to,
  root: rootOf(leaves.slice(0, to)),
  proof: consistencyProof(from, to, (low, high) => rootOf(leaves.slice(low, high))),
  final,
});
const refused = expect.objectContaining({ code: 'WITNESS_REFUSED' }) as never;

let folder: ReturnType<typeof temporaryFolder>;
beforeEach(() => {
  folder = temporaryFolder();
});
const spawned: ChildProcess[] = [];
afterEach(() => {
  // one that a failed test left stopped would keep this process
  for (const child of spawned.splice(0)) child.kill('SIGKILL');
  folder.remove();
});

async function ended(child: ChildProcess): Promise<number | null> {
  if (child.exitCode !== null) return child.exitCode;
  return new Promise((resolve) => child.on('exit', resolve));
}

async function untilGone(home: string): Promise<boolean> {
  for (let i = 0; i < 100; i++) {
    const answered = await new Promise<boolean>((resolve) => {
      const socket = createConnection(witnessAddress(home));
      socket.on('connect', () => resolve(true));
      socket.on('connect', () => socket.destroy());
      socket.on('error', () => resolve(false));
    });
    if (!answered) return true;
    await delay(400);
  }
  return false;
}

describe('the rules of the witness', () => {
  test('tickets are numbered, the same on every request, and count what was left unfinished', async () => {
    const witness = witnessInProcess(folder.path);
    const first = parseTicket(await witness.ticket(RUN));
    const second = parseTicket(await witness.ticket(OTHER));
    expect([first.number, first.unfinishedBefore, second.number, second.unfinishedBefore]).toEqual([
      1, 0, 2, 1,
    ]);
    expect(await witness.ticket(RUN)).toBe(await witness.ticket(RUN));
    expect(first.nonceCommitment.equals(second.nonceCommitment)).toBe(false);
    await witness.close();
  });

  test('a head must extend the last one', async () => {
    const witness = witnessInProcess(folder.path);
    await expect(witness.signHead(head(0, 5))).rejects.toThrow(refused); // no ticket
    await witness.ticket(RUN);
    await witness.signHead(head(0, 20));
    await expect(witness.signHead({ ...head(20, 33), proof: [] })).rejects.toThrow(refused);
    await expect(witness.signHead({ ...head(20, 33), root: 'ab'.repeat(32) })).rejects.toThrow(
      refused,
    );
    await expect(witness.signHead(head(0, 19))).rejects.toThrow(refused); // shorter
    await expect(witness.signHead({ ...head(0, 20), root: 'ab'.repeat(32) })).rejects.toThrow(
      refused,
    ); // another history of the same size
    const forged = leaves.map((leaf, i) => (i === 7 ? leafDigest(Buffer.from('forged')) : leaf));
    const rewritten = {
      ...head(20, 40),
      root: rootOf(forged.slice(0, 40)),
      proof: consistencyProof(20, 40, (low, high) => rootOf(forged.slice(low, high))),
    };
    await expect(witness.signHead(rewritten)).rejects.toThrow(refused);
    expect(await witness.heads(RUN)).toHaveLength(1);
    expect(parseCheckpoint(await witness.signHead(head(20, 33))).size).toBe(33);
    // asked again: the same note
    expect(await witness.signHead(head(33, 33))).toBe((await witness.heads(RUN)).at(-1));
    await witness.close();
  });

  test('nothing follows a final head', async () => {
    const witness = witnessInProcess(folder.path);
    await witness.ticket(RUN);
    const final = await witness.signHead(head(0, 20, true));
    expect(parseCheckpoint(final).final).toBe(true);
    await expect(witness.signHead(head(20, 21))).rejects.toThrow(refused);
    await expect(witness.signHead(head(20, 20))).rejects.toThrow(refused);
    expect(await witness.signHead(head(0, 20, true))).toBe(final);
    expect(parseTicket(await witness.ticket(OTHER)).unfinishedBefore).toBe(0);
    await witness.close();
  });

  test('a head with a state says when it was signed, never earlier than the one before; one state a head', async () => {
    const witness = witnessInProcess(folder.path);
    await witness.ticket(RUN);
    const [state, other] = ['01'.repeat(32), '02'.repeat(32)];
    const clock = jest.spyOn(Date, 'now').mockReturnValue(1_000_000);
    try {
      const first = parseCheckpoint(await witness.signHead({ ...head(0, 20), state }));
      expect(first.stated).toEqual({ timeUs: 1_000_000_000, state });
      await expect(witness.signHead({ ...head(20, 20), state: other })).rejects.toThrow(refused);
      clock.mockReturnValue(500_000);
      expect(
        parseCheckpoint(await witness.signHead({ ...head(20, 33), state: other })).stated!.timeUs,
      ).toBe(1_000_000_000);
      // of a run: as it always was
      expect(parseCheckpoint(await witness.signHead(head(33, 40))).stated).toBeUndefined();
    } finally {
      clock.mockRestore();
    }
    for (const text of await witness.heads(RUN)) {
      for (const change of [
        text.replace('time ', 'time 0'),
        text.replace('state ', 'state='),
        text.replace(/time .*\n/, ''),
      ])
        if (change !== text)
          expect(() => parseCheckpoint(change)).toThrow(
            expect.objectContaining({ code: 'CHECKPOINT_INVALID' }) as never,
          );
    }
    await witness.close();
  });

  test('a draw is told for a signed head only, is the same whenever it is asked for, and another one for every head', async () => {
    const witness = witnessInProcess(folder.path);
    await witness.ticket(RUN);
    await expect(witness.draw(RUN, 20)).rejects.toThrow(refused);
    const first = parseCheckpoint(await witness.signHead(head(0, 20)));
    const drawn = await witness.draw(RUN, 20);
    await expect(witness.draw(RUN, 21)).rejects.toThrow(refused);
    await expect(witness.draw(OTHER, 20)).rejects.toThrow(refused);
    const second = parseCheckpoint(await witness.signHead(head(20, 33)));
    expect(await witness.draw(RUN, 20)).toBe(drawn);
    const [one, two] = [parseDraw(drawn), parseDraw(await witness.draw(RUN, 33))];
    expect(one.nonce).not.toBe(two.nonce);
    expect(isDrawOf(one, first) && isDrawOf(two, second) && !isDrawOf(one, second)).toBe(true);
    expect(isDrawnBy(one, await witness.key(RUN))).toBe(true);
    expect(isDrawnBy(parseDraw(drawn.replace(one.nonce, two.nonce)), await witness.key(RUN))).toBe(
      false,
    );
    const preimage = Buffer.concat([Buffer.from(first.note.text), Buffer.from(one.nonce, 'hex')]);
    expect(drawnSeed(first, one)).toBe(createHash('sha256').update(preimage).digest('hex'));
    expect(() => parseDraw(first.text)).toThrow(
      expect.objectContaining({ code: 'CHECKPOINT_INVALID' }) as never,
    );
    await witness.close();
  });

  test('the nonce is told only for the last signed head, fits its commitment, and later heads say when it was', async () => {
    const witness = witnessInProcess(folder.path);
    const ticket = parseTicket(await witness.ticket(RUN));
    await expect(witness.reveal(RUN, 20)).rejects.toThrow(refused);
    expect(parseCheckpoint(await witness.signHead(head(0, 20))).revealed).toBeNull();
    await expect(witness.reveal(RUN, 19)).rejects.toThrow(refused);
    const nonce = await witness.reveal(RUN, 20);
    expect(commitToNonce(RUN, Buffer.from(nonce, 'hex'))).toEqual(ticket.nonceCommitment);
    expect(parseCheckpoint(await witness.signHead(head(20, 30, true))).revealed).toEqual({
      size: 20,
      nonce,
    });
    await witness.close();
  });
});

describe('the witness process', () => {
  test('is started by a run, keeps key and heads in its own folder, and ends with its last run', async () => {
    const home = folder.path;
    const client = await WitnessClient.open(home);
    if (process.platform === 'linux')
      expect(
        readFileSync(`/proc/${witnessProcess(home)}/cmdline`, 'utf8')
          .split('\0')
          .slice(1, -1),
      ).toEqual([expect.stringMatching(/\/log\/witness-process\.js$/)]);
    const path = join(home, 'log.sqlite');
    const log = await EventLog.create({
      streams: RUN_STREAMS,
      path,
      runId: RUN,
      signer: client,
      runConfig: null,
      digests: {},
    });
    log.append([{ stream: 'metrics', payload: { kind: 'step', loss: 1 } }]);
    await log.checkpoint();
    await log.reveal();
    await log.finish();
    if (process.platform !== 'win32') {
      expect(statSync(join(home, 'witness')).mode & 0o777).toBe(0o700);
      expect(statSync(join(home, 'witness', 'key.secret')).mode & 0o777).toBe(0o600);
    }
    const verification = await verifyRun(path, { streams: RUN_STREAMS, home });
    expect(verification).toMatchObject({
      outcome: 'ok',
      signer: 'witness',
      key: { ownedByThisUser: true },
    });
    await client.close();
    expect(await untilGone(home)).toBe(true);
    // a stranger needs the public key only
    const elsewhere = temporaryFolder();
    const stranger = await verifyRun(path, {
      streams: RUN_STREAMS,
      home: elsewhere.path,
      keyFile: publicKeyFile(home),
    });
    expect(stranger).toMatchObject({ outcome: 'ok', key: { ownedByThisUser: false } });
    await expect(verifyRun(path, { streams: RUN_STREAMS, home: elsewhere.path })).rejects.toThrow(
      expect.objectContaining({ code: 'WITNESS_KEY_MISSING' }) as never,
    );
    // one who has a witness of their own lacks a key too, and finds nothing tampered
    openWitnessKey(elsewhere.path);
    await expect(
      verifyRun(path, { streams: RUN_STREAMS, home: elsewhere.path }),
    ).rejects.toMatchObject({
      code: 'WITNESS_KEY_MISSING',
      message: expect.stringMatching(
        /signed by the witness with the key [0-9a-f]{8}, which is not this machine's/,
      ),
    });
    // where that witness knows the run itself, another's signature is a forgery
    const own = witnessInProcess(join(elsewhere.path, 'witness'));
    await own.ticket(RUN);
    await own.signHead(head(0, 20));
    await own.close();
    expect(await verifyRun(path, { streams: RUN_STREAMS, home: elsewhere.path })).toMatchObject({
      outcome: 'tampered',
    });
    elsewhere.remove();
  });

  test('goes on with the same key, tickets and heads after it was killed', async () => {
    const home = folder.path;
    const start = (): ChildProcess =>
      spawn(process.execPath, [program, 'witness', '--idle', '20'], {
        env: { ...process.env, ISOPRO_HOME: home },
        stdio: 'ignore',
      });
    const first = start();
    const client = await WitnessClient.open(home);
    const ticket = await client.ticket(RUN);
    await client.signHead(head(0, 20));
    first.kill('SIGKILL');
    await ended(first);
    expect(await client.ticket(RUN)).toBe(ticket); // the client has started another one
    await expect(client.signHead({ ...head(20, 21), proof: [] })).rejects.toThrow(refused);
    expect(parseCheckpoint(await client.signHead(head(20, 40))).size).toBe(40);
    await client.close();
    expect(await untilGone(home)).toBe(true);
  });

  test.each<[string, (file: string) => void]>([
    ['of no bytes', (file) => writeFileSync(file, '')],
    ['gone', (file) => rmSync(file)],
    [
      'without its tables',
      (file) => {
        rmSync(file);
        const db = new Database(file);
        db.pragma('journal_mode = WAL');
        db.close();
      },
    ],
  ])('begins nothing anew beside a file that is %s', async (_, damage) => {
    const home = folder.path;
    const client = await WitnessClient.open(home);
    await client.ticket(RUN);
    await client.signHead(head(0, 20));
    await client.close();
    expect(await untilGone(home)).toBe(true);
    const whole = readFileSync(witnessFile(home));
    for (const end of ['-wal', '-shm']) rmSync(witnessFile(home) + end, { force: true });
    damage(witnessFile(home));
    const refusal = expect.objectContaining({
      code: 'WITNESS_UNAVAILABLE',
      message: expect.stringContaining(`${witnessFile(home)} is empty or missing`) as never,
    }) as never;
    // at once, and not after the time for its start
    await expect(WitnessClient.open(home)).rejects.toThrow(refusal);
    await expect(runWitness({ home, idleMs: 1 })).rejects.toThrow(refusal);
    // again: the lock was given back
    await expect(runWitness({ home, idleMs: 1 })).rejects.toThrow(refusal);
    for (const end of ['', '-wal', '-shm']) rmSync(witnessFile(home) + end, { force: true });
    writeFileSync(witnessFile(home), whole);
    const again = await WitnessClient.open(home);
    expect(await again.heads(RUN)).toHaveLength(1);
    await again.close();
    expect(await untilGone(home)).toBe(true);
  });

  test('a log is not held against the heads of a witness whose file is gone', async () => {
    const home = folder.path;
    const client = await WitnessClient.open(home);
    const path = join(home, 'log.sqlite');
    const log = await EventLog.create({
      streams: RUN_STREAMS,
      path,
      runId: RUN,
      signer: client,
      runConfig: null,
      digests: {},
    });
    await log.finish();
    log.close();
    await client.close();
    expect(await untilGone(home)).toBe(true);
    expect((await verifyRun(path, { streams: RUN_STREAMS, home })).outcome).toBe('ok');
    rmSync(witnessFile(home));
    await expect(verifyRun(path, { streams: RUN_STREAMS, home })).rejects.toThrow(
      /is empty or missing/,
    );
    // one who judges by a key of another's has nothing to do with it
    const elsewhere = temporaryFolder();
    const stranger = { streams: RUN_STREAMS, home: elsewhere.path, keyFile: publicKeyFile(home) };
    expect((await verifyRun(path, stranger)).outcome).toBe('ok');
    elsewhere.remove();
  });

  test('homes of before go on: one with a key alone, one without a process file', async () => {
    const home = folder.path;
    openWitnessKey(home); // as `witness --show-key` leaves it
    const client = await WitnessClient.open(home);
    const ticket = await client.ticket(RUN);
    await client.close();
    expect(await untilGone(home)).toBe(true);
    rmSync(witnessProcessFile(home));
    const again = await WitnessClient.open(home);
    expect(await again.ticket(RUN)).toBe(ticket);
    await again.close();
    expect(await untilGone(home)).toBe(true);
  });

  test('is one for a home: a second one leaves at once, and two runs share the first', async () => {
    const home = folder.path;
    const clients = await Promise.all([
      WitnessClient.open(home),
      WitnessClient.open(home),
      WitnessClient.open(home),
    ]);
    const second = spawn(process.execPath, [program, 'witness'], {
      env: { ...process.env, ISOPRO_HOME: home },
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    let said = '';
    second.stderr?.on('data', (text: Buffer) => (said += text.toString()));
    expect(await ended(second)).toBe(0);
    expect(said).toContain('a witness is already running');
    const numbers = await Promise.all(
      [RUN, OTHER, 'ef56'.repeat(8)].map(
        async (runId, i) => parseTicket(await (clients[i] as WitnessClient).ticket(runId)).number,
      ),
    );
    expect(numbers.sort()).toEqual([1, 2, 3]);
    await (clients[0] as WitnessClient).close();
    await delay(600);
    // still there for the others
    expect(await (clients[1] as WitnessClient).heads(OTHER)).toEqual([]);
    await Promise.all(clients.slice(1).map((client) => client.close()));
    expect(await untilGone(home)).toBe(true);
  });

  test('ends by itself when no run comes, and when its run is killed', async () => {
    const home = folder.path;
    const idle = spawn(process.execPath, [program, 'witness', '--idle', '0.3'], {
      env: { ...process.env, ISOPRO_HOME: home },
      stdio: 'ignore',
    });
    expect(await ended(idle)).toBe(0);
    const appender = fileURLToPath(new URL('./appender.mjs', import.meta.url));
    const run = spawn(process.execPath, [appender, join(home, 'log.sqlite'), RUN, 'witness'], {
      env: { ...process.env, ISOPRO_HOME: home },
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    await new Promise((resolve) => run.stdout?.once('data', resolve));
    run.kill('SIGKILL');
    expect(await untilGone(home)).toBe(true);
  });

  const stoppable = process.platform === 'win32' ? test.skip : test;

  stoppable(
    'that was stopped: a run says so, asks again, and gives up by name; continued, it answers as it would have',
    async () => {
      const home = folder.path;
      const witness = spawn(process.execPath, [program, 'witness', '--idle', '20'], {
        env: { ...process.env, ISOPRO_HOME: home },
        stdio: ['ignore', 'ignore', 'pipe'],
      });
      spawned.push(witness);
      await new Promise((resolve) => witness.stderr?.once('data', resolve));
      const notices: string[] = [];
      const client = await WitnessClient.open(home, {
        answerMs: 200,
        onNotice: (text) => notices.push(text),
      });
      const ticket = await client.ticket(RUN);
      witness.kill('SIGSTOP');
      const silent = `the witness (process ${witness.pid}) has not answered for 0.2 s`;
      await expect(client.signHead(head(0, 20))).rejects.toThrow(
        expect.objectContaining({
          code: 'WITNESS_UNAVAILABLE',
          message: silent,
          remedy: expect.stringContaining('same command'),
        }) as never,
      );
      expect(notices).toEqual(
        [2, 3].map((attempt) => `${silent}; asking again (attempt ${attempt} of 3)`),
      );
      witness.kill('SIGCONT');
      expect(await client.ticket(RUN)).toBe(ticket);
      expect(parseCheckpoint(await client.signHead(head(0, 20))).size).toBe(20);
      await client.close();
      expect(await ended(witness)).toBe(0); // it does not outlive its runs
    },
  );

  stoppable(
    "of a run's own that was stopped is ended and another one asked; a cancelled run does not wait",
    async () => {
      const home = folder.path;
      const stop = new AbortController();
      const client = await WitnessClient.open(home, { answerMs: 500, signal: stop.signal });
      const ticket = await client.ticket(RUN);
      const pid = witnessProcess(home) as number;
      process.kill(pid, 'SIGSTOP');
      expect(await client.ticket(RUN)).toBe(ticket);
      expect(witnessProcess(home)).not.toBe(pid);
      expect(hasEnded(pid)).toBe(true);
      const next = witnessProcess(home) as number;
      process.kill(next, 'SIGSTOP');
      const asked = expect(client.heads(RUN)).rejects.toThrow(
        expect.objectContaining({ code: 'ABORTED' }) as never,
      );
      stop.abort();
      await asked;
      while (!hasEnded(next)) await delay(10);
      await client.close();
    },
  );

  test('answers nonsense with an error and lives on', async () => {
    const home = folder.path;
    const client = await WitnessClient.open(home);
    const socket = createConnection(witnessAddress(home));
    const replies: string[] = [];
    socket.setEncoding('utf8').on('data', (text) => replies.push(String(text)));
    const sign = {
      do: 'sign',
      runId: RUN,
      size: 1,
      root: 'ab'.repeat(32),
      proof: [],
      final: false,
    };
    const requests = [
      '',
      'hello',
      '{}',
      '[]',
      '{"id":1,"do":"forge"}',
      JSON.stringify({ id: 2, ...sign }),
      JSON.stringify({ id: 3, ...sign, size: 0 }),
      JSON.stringify({ id: 4, ...sign, extra: 1 }),
      JSON.stringify({ id: 5, ...sign, runId: '../etc' }),
    ];
    socket.write(`${requests.join('\n')}\n`);
    await delay(300);
    const lines = replies
      .join('')
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as { error?: { code: string } });
    expect(lines).toHaveLength(requests.length);
    for (const line of lines)
      expect(['INVALID_ARGUMENT', 'WITNESS_REFUSED']).toContain(line.error?.code);
    socket.on('error', () => undefined);
    const closed = new Promise((resolve) => socket.on('close', resolve));
    socket.write('x'.repeat(200_000)); // a line without end: only this connection is lost
    await closed;
    expect(await client.heads(RUN)).toEqual([]);
    await client.close();
  });

  test('its public key file is what --key takes', async () => {
    const client = await WitnessClient.open(folder.path);
    expect(readTrustedKey(publicKeyFile(folder.path))).toMatchObject({ signer: 'witness' });
    expect(readFileSync(publicKeyFile(folder.path), 'utf8')).toMatch(
      /^isopro-native\/witness\+[0-9a-f]{8}\+\S+\n$/,
    );
    expect(existsSync(join(folder.path, 'witness', 'key.secret'))).toBe(true);
    await client.close();
  });
});

const onSockets = process.platform === 'win32' ? describe.skip : describe;

onSockets('the address of the witness', () => {
  const tooLong = (): string => join(folder.path, 'h'.repeat(120));

  /**
   * Listens in the witness's place and answers every question with what `reply` makes of it. It
   * keeps the questions.
   */
  async function impostor(
    home: string,
    reply: (question: Record<string, unknown>, socket: Socket) => unknown,
  ) {
    mkdirSync(join(home, 'witness'), { recursive: true });
    const asked: Record<string, unknown>[] = [];
    const server = createServer((socket) => {
      socket.on('error', () => undefined);
      socket.setEncoding('utf8').on('data', (text) => {
        for (const line of String(text).trim().split('\n')) {
          const question = JSON.parse(line) as Record<string, unknown>;
          asked.push(question);
          const result = reply(question, socket);
          if (result !== undefined && !socket.destroyed)
            socket.write(`${JSON.stringify({ id: question.id, result })}\n`);
        }
      });
    });
    await new Promise<void>((resolve) => server.listen(witnessAddress(home), resolve));
    return { asked, close: () => new Promise((resolve) => server.close(resolve)) };
  }

  const signedBy = (home: string, text: string): string =>
    formatNote(text, [openWitnessKey(home).sign(text, WITNESS_KEY_NAME)]);

  test.each<
    [
      string,
      (own: string, home: string) => (question: Record<string, unknown>, socket: Socket) => unknown,
    ]
  >([
    [
      'signs the challenge with a key of its own',
      (own) =>
        ({ challenge }) =>
          signedBy(own, identityText(String(challenge))),
    ],
    [
      'repeats what the witness said to another challenge',
      (_, home) => () => signedBy(home, identityText('ab'.repeat(32))),
    ],
    ['shows the public key', (_, home) => () => readFileSync(publicKeyFile(home), 'utf8')],
    ['gives a list', () => () => ['x']],
    ['closes each connection', () => (_, socket) => void socket.destroy()],
    ['answers without an end', () => (_, socket) => void socket.write('x'.repeat(2 ** 26 + 1))],
  ])('a process that listens there and %s is told nothing of the run', async (_, reply) => {
    const home = tooLong();
    openWitnessKey(home);
    const other = await impostor(home, reply(join(folder.path, 'own'), home));
    try {
      await expect(WitnessClient.open(home, { startMs: 300 })).rejects.toMatchObject({
        code: 'WITNESS_UNAVAILABLE',
        message: expect.stringContaining('does not have the key of this ISOPRO_HOME') as never,
      });
      expect(other.asked.length).toBeGreaterThan(0);
      for (const question of other.asked)
        expect(Object.keys(question).sort()).toEqual(['challenge', 'do', 'id']);
    } finally {
      await other.close();
    }
  });

  test('is told nothing at all where the home has no key yet', async () => {
    const home = tooLong();
    const other = await impostor(home, () => 'x');
    await expect(WitnessClient.open(home, { startMs: 300 })).rejects.toMatchObject({
      code: 'WITNESS_UNAVAILABLE',
    });
    expect(other.asked).toEqual([]);
    await other.close();
  });

  test("is waited for while the witness of a home that was there before ends, and is then this home's own", async () => {
    const home = tooLong();
    const before = await WitnessClient.open(home);
    await before.ticket(RUN);
    rmSync(home, { recursive: true });
    openWitnessKey(home);
    const opening = WitnessClient.open(home);
    await before.close();
    const client = await opening;
    expect(parseTicket(await client.ticket(RUN)).number).toBe(1);
    await client.close();
    expect(await untilGone(home)).toBe(true);
  });

  test('lies in a folder that only the user can use, or nowhere', () => {
    const own = mkdtempSync(join(tmpdir(), 'isopro-temporary-'));
    const place = join(own, `isopro-native-${process.getuid?.()}`);
    const protocol = new URL('../../dist/src/log/witness-protocol.js', import.meta.url).href;
    const script = `import { witnessAddress } from '${protocol}';
      try { console.log(witnessAddress(process.argv[1])); } catch (error) { console.log(error.code, error.remedy); }`;
    const address = (): string =>
      spawnSync(process.execPath, ['--input-type=module', '-e', script, tooLong()], {
        env: { ...process.env, TMPDIR: own },
        encoding: 'utf8',
      }).stdout;
    try {
      expect(address().startsWith(`${place}/`)).toBe(true);
      expect(statSync(place).mode & 0o777).toBe(0o700);
      for (const mode of [0o777, 0o710, 0o704]) {
        chmodSync(place, mode);
        expect(address()).toMatch(/^WITNESS_UNAVAILABLE .*TMPDIR/);
      }
      rmSync(place, { recursive: true });
      mkdirSync(join(own, 'elsewhere'), 0o700);
      symlinkSync(join(own, 'elsewhere'), place);
      expect(address()).toMatch(/^WITNESS_UNAVAILABLE/);
    } finally {
      rmSync(own, { recursive: true, force: true });
    }
  });
});
