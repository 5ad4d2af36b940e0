import { describe, expect, test } from '@jest/globals';
import { Progress } from '../../src/cli/progress.js';
import { Terminal } from '../models/terminal.js';
import { formatBytes, formatDuration, formatNumber } from '../../src/cli/quantities.js';

/** A stream and a clock that the test moves by hand. */
function recorder(terminal: boolean, columns = 100) {
  const written: string[] = [];
  const state = { now: 0 };
  return {
    written,
    state,
    stream: { isTTY: terminal, columns, write: (text: string) => written.push(text) },
    now: () => state.now,
  };
}

describe('progress on a terminal', () => {
  test('redraws one line with bar, amounts, rate and remaining time', () => {
    const { written, state, stream, now } = recorder(true);
    const progress = new Progress({
      label: 'download m',
      total: 1000e6,
      unit: 'bytes',
      stream,
      now,
    });
    progress.update(0);
    state.now = 10_000;
    progress.update(250e6);
    const line = written.at(-1)!;
    expect(line.startsWith('\r[')).toBe(true);
    expect(line).toContain(' 25 %');
    expect(line).toContain('250 MB of 1.00 GB');
    expect(line).toContain('25.0 MB/s');
    expect(line).toContain('ETA 0:30');
    expect(written.join('')).not.toContain('\n');
  });

  test('does not redraw more often than ten times a second, and never wraps', () => {
    const { written, state, stream, now } = recorder(true, 40);
    const progress = new Progress({
      label: 'a rather long label for forty columns',
      total: 100,
      unit: 'problems',
      stream,
      now,
    });
    for (let i = 0; i <= 100; ++i) {
      state.now = i * 10;
      progress.update(i);
    }
    expect(written.length).toBeLessThanOrEqual(12);
    for (const line of written)
      expect(line.replaceAll('\x1b[K', '').replaceAll('\r', '').length).toBeLessThan(40);
  });

  test('a long label gives way to the figures', () => {
    const { written, state, stream, now } = recorder(true, 80);
    const progress = new Progress({
      label: 'https://example.test/a/long/address/of/some/model-Q4_K_M.gguf',
      total: 1000e6,
      unit: 'bytes',
      stream,
      now,
    });
    progress.update(0);
    state.now = 10_000;
    progress.update(250e6);
    const line = written.at(-1)!;
    expect(line.endsWith('\x1b[K')).toBe(true);
    expect(line.slice(0, -'\x1b[K'.length)).toMatch(
      /\.\.\S*model-Q4_K_M\.gguf {3}25 % {2}250 MB of 1\.00 GB {2}25\.0 MB\/s {2}ETA 0:30$/,
    );
  });

  test('what was there at the start counts as done but not as speed', () => {
    const { written, state, stream, now } = recorder(true);
    const progress = new Progress({ label: 'resume', total: 1000, unit: 'bytes', stream, now });
    progress.update(800);
    state.now = 10_000;
    progress.update(900);
    expect(written.at(-1)).toContain('10 B/s');
    expect(written.at(-1)).toContain('ETA 0:10');
    progress.finish();
    expect(written.at(-1)).toMatch(/10 B\/s {2}in 0:10.*\n$/s);
  });

  test('after a failure the half-drawn line disappears, and later updates are ignored', () => {
    const { written, stream, now } = recorder(true);
    const progress = new Progress({ label: 'x', total: 10, unit: 'items', stream, now });
    progress.update(3);
    progress[Symbol.dispose]();
    expect(written.at(-1)).toBe('\r\x1b[K');
    const count = written.length;
    progress.update(4);
    progress.finish();
    expect(written.length).toBe(count);
  });
});

describe('a line of progress', () => {
  const long = (terminal: Terminal, note = ''): Progress => {
    const state = { now: 0 };
    const progress = new Progress({
      label: 'test problems',
      total: 1000,
      unit: 'answers',
      stream: terminal,
      now: () => state.now,
    });
    progress.update(0);
    state.now = 10_000;
    progress.update(250, { note });
    return progress;
  };

  test('stands before there is an amount', () => {
    const terminal = new Terminal(80);
    const progress = new Progress({
      label: 'evaluating',
      unit: 'answers',
      stream: terminal,
      now: () => 0,
    });
    progress.begin('loading the model');
    expect(terminal.shown).toBe('evaluating  loading the model');
    progress.update(3, { total: 10 });
    expect(terminal.shown).not.toContain('loading');
  });

  test.each([80, 0, undefined])(
    'of %s columns is whole: where there is little room the rate goes first',
    (columns) => {
      const terminal = new Terminal(columns);
      long(terminal);
      expect(terminal.shown).toMatch(
        /^\[#+-+\] test problems {3}25 % {2}250 of 1000 answers {2}25\/s {2}ETA 0:30$/,
      );
      const narrow = new Terminal(columns);
      long(narrow, 'step 250/1000, loss 1.234, 800 MB');
      expect(narrow.shown).toMatch(/25 % .*ETA 0:30 {2}step 250\/1000, loss 1\.234, 800 MB$/);
      expect(narrow.shown.length).toBeLessThan(80);
    },
  );

  test('leaves nothing behind at Ctrl-C, whose echo has room beside it', () => {
    const terminal = new Terminal(80);
    const progress = long(terminal, 'step 250/1000, loss 1.234, validation 1.345, 800 MB');
    terminal.write('^C');
    progress[Symbol.dispose]();
    terminal.write('error ABORTED\n');
    expect(terminal.shown).toBe('error ABORTED');
  });
});

describe('progress without a terminal', () => {
  test('writes plain lines, one in five seconds, without control characters', () => {
    const { written, state, stream, now } = recorder(false);
    const progress = new Progress({ label: 'score', total: 60, unit: 'problems', stream, now });
    for (let second = 0; second <= 60; ++second) {
      state.now = second * 1000;
      progress.update(second);
    }
    progress.finish();
    expect(written.length).toBe(13);
    for (const line of written) expect(line).toMatch(/^[\x20-\x7e]+\n$/);
    expect(written.at(-1)).toContain('60 of 60 problems');
  });

  test('stays silent for a short job', () => {
    const { written, state, stream, now } = recorder(false);
    const progress = new Progress({ label: 'short', total: 2, unit: 'items', stream, now });
    progress.update(1);
    state.now = 1000;
    progress.update(2);
    progress.finish();
    expect(written).toEqual([]);
  });
});

test('sizes, durations and numbers round into the next unit', () => {
  expect([0, 999, 999.6, 1234, 99_960, 999_600_000, 4.7e9].map(formatBytes)).toEqual([
    '0 B',
    '999 B',
    '1.00 kB',
    '1.23 kB',
    '100 kB',
    '1.00 GB',
    '4.70 GB',
  ]);
  expect([0, 59.6, 61, 3661].map(formatDuration)).toEqual(['0:00', '1:00', '1:01', '1:01:01']);
  expect([0, 12_345, 45.67, 0.1234, 3].map(formatNumber)).toEqual([
    '0',
    '12345',
    '45.7',
    '0.123',
    '3',
  ]);
});
