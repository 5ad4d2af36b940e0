/** What a training that is gone on with has to have been begun with. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, describe, expect, test } from '@jest/globals';
import { TrainFiles, type RowTokens } from '../../src/operations/train/files.js';

const folder = mkdtempSync(path.join(tmpdir(), 'isopro-train-files-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const now: RowTokens = {
  rendererId: 'new',
  formerRendererId: null,
  endOfAnswer: 7,
  formerEndOfAnswer: 7,
};
const course = { rank: 8, seed: '1' };
let files = 0;
const begun = (settings: object | null): TrainFiles => {
  const own = new TrainFiles(path.join(folder, String(files++)));
  if (settings !== null) writeFileSync(own.settings, JSON.stringify(settings));
  return own;
};
const refusal = (own: TrainFiles, tokens: RowTokens): string => {
  try {
    own.checkTokens(tokens);
    return 'goes on';
  } catch (error) {
    const { code, message } = error as { code: string; message: string };
    return `${code}: ${message}`;
  }
};

describe('a training that was interrupted before the renderer was corrected', () => {
  test.each([
    ['whose prompts and ends are what they were', now, /^goes on$/],
    [
      'whose answers ended otherwise',
      { ...now, formerEndOfAnswer: 5 },
      /^INVALID_ARGUMENT: .* ends with the token 7, .* instead of 5$/,
    ],
    [
      'whose prompts were rendered otherwise',
      { ...now, formerRendererId: 'old' },
      /^INVALID_ARGUMENT: .* the renderer has since been corrected/,
    ],
    [
      'of both',
      { ...now, formerRendererId: 'old', formerEndOfAnswer: 5 },
      /the renderer has since been corrected.*; an answer now ends/,
    ],
  ])('%s', (_, tokens, expected) => {
    expect(refusal(begun(course), tokens)).toMatch(expected);
    expect(refusal(begun(null), tokens)).toMatch(expected);
  });
});

test('one that was begun since goes on with the tokens that it was begun with, and with no others', async () => {
  const own = begun(null);
  const tokens = { ...now, formerRendererId: 'old', formerEndOfAnswer: 5 };
  await own.open(0, course, tokens);
  expect(JSON.parse(readFileSync(own.settings, 'utf8'))).toEqual({
    ...course,
    renderer: 'new',
    'end-of-answer': 7,
  });
  expect(refusal(own, tokens)).toBe('goes on');
  expect(() => own.checkSame(course)).not.toThrow();
  expect(refusal(own, { ...tokens, endOfAnswer: 9 })).toMatch(
    /ends with the token 9, .* instead of 7/,
  );
  expect(refusal(own, { ...tokens, rendererId: 'newer' })).toMatch(
    /the renderer has since been corrected/,
  );
});
