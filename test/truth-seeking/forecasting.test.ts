/** Forecasts of the user: what is read, what is left out and counted, what is refused. */
import { expect, test } from '@jest/globals';
import { readForecasts } from '../../src/truth-seeking/domains/forecasting.js';

const CUTOFF = '2024-09-20';
const row = (question: string, resolution: string, more: object = {}): object => ({
  question,
  resolution,
  endTime: '2025-01-31',
  ...more,
});
const lines = (...rows: object[]): string =>
  rows.map((each) => `${JSON.stringify(each)}\n`).join('\n');
const BOTH = [row('Will it rain?', 'Yes'), row('Will it snow?', 'No')];

test('two options, the one that came true, the others counted', () => {
  const found = readForecasts(
    lines(
      ...BOTH,
      row('Who wins?', 'Blue', { options: ['Red', 'Blue'], endTime: '2024-09-20T00:00:01Z' }),
      row('Long ago?', 'Yes', { endTime: '2024-09-19' }),
      row('At the border?', 'Yes', { endTime: '2024-09-20T02:00:00+02:00' }),
      row('Will it rain?', 'Yes'),
    ),
    CUTOFF,
  );
  expect(
    found.problems.map(({ question, options, correctOption }) => [
      question,
      options[correctOption!],
    ]),
  ).toEqual([
    ['Will it rain?', 'Yes'],
    ['Will it snow?', 'No'],
    ['Who wins?', 'Blue'],
  ]);
  expect(found.skipped).toEqual({ 'asked before': 1, 'settled by the cutoff': 2 });
  expect(found.firstOptionShare).toBeCloseTo(1 / 3, 12);
});

test.each([
  ['no object', `${lines(...BOTH)}3`, /line 4/],
  ['one option', lines(...BOTH, row('A?', 'A', { options: ['A'] })), /options/],
  ['three options', lines(...BOTH, row('A?', 'A', { options: ['A', 'B', 'C'] })), /options/],
  [
    'options that differ by a space',
    lines(...BOTH, row('A?', 'A', { options: ['A', 'A '] })),
    /both options are "A"/,
  ],
  ['another resolution', lines(...BOTH, row('A?', 'Maybe')), /"Maybe" is not one of its options/],
  ['no resolution', lines(...BOTH, { question: 'A?', endTime: '2025-01-31' }), /resolution/],
  ['no time', lines(...BOTH, row('A?', 'Yes', { endTime: 'soon' })), /endTime/],
  [
    'a time without its zone',
    lines(...BOTH, row('A?', 'Yes', { endTime: '2025-01-31T10:00:00' })),
    /endTime/,
  ],
  [
    'two outcomes of one question',
    lines(...BOTH, row('Will it rain?', 'No')),
    /another resolution/,
  ],
  ['one outcome only', lines(row('Will it rain?', 'Yes')), /1 forecasts are left/],
  ['nothing', '\n\n', /0 forecasts are left/],
])('%s is refused', (_, text, message) => {
  expect(() => readForecasts(text, CUTOFF)).toThrow(
    expect.objectContaining({ code: 'DATA_INVALID', message: expect.stringMatching(message) }),
  );
});

test('a line that is not JSON is refused', () => {
  expect(() => readForecasts(`${lines(...BOTH)}{`, CUTOFF)).toThrow(
    expect.objectContaining({
      code: 'INVALID_ARGUMENT',
      message: expect.stringMatching(/line 4 is not JSON/),
    }),
  );
});

test('a cutoff that is no date is refused', () => {
  expect(() => readForecasts(lines(...BOTH), 'last year')).toThrow(
    expect.objectContaining({ code: 'DATA_INVALID' }),
  );
});
