/** Files of the user: what is read, what is left out and counted, what is refused with its line. */
import { describe, expect, test } from '@jest/globals';
import { readConversations } from '../../src/truth-seeking/domains/conversations.js';
import { parts } from '../../src/truth-seeking/domains/domain.js';
import { importedDomain } from '../../src/truth-seeking/domains/imported.js';
import { readDiscussions, readOpinions } from '../../src/truth-seeking/domains/opinions.js';
import { readPeerReviews } from '../../src/truth-seeking/domains/peer-reviews.js';

const lines = (...rows: object[]): string =>
  rows.map((each) => `${JSON.stringify(each)}\n`).join('\n');
const OWN = { licence: 'own writing' };

const refused = (read: () => unknown, message: RegExp, code = 'DATA_INVALID'): void =>
  expect(read).toThrow(expect.objectContaining({ code, message: expect.stringMatching(message) }));

describe('peer reviews', () => {
  const paper = (title: string, decision: string, more: object = {}): object => ({
    venue: 'ICLR 2031',
    title,
    abstract: `We weigh ${title}.`,
    authors: ['A. Author'],
    reviews: ['Weighed well.'],
    references: ['An older scale.'],
    decision,
    ...more,
  });
  const BOTH = [paper('Stones', 'Accept (poster)'), paper('Feathers', 'Reject')];

  test('accepted or rejected; the decision and what is not named stays unsaid', () => {
    const found = readPeerReviews(
      lines(
        ...BOTH,
        paper('Water', 'accept: oral', { venue: 'iclr 2032', decisionNote: 'SECRET' }),
        paper('Air', 'Accept', { venue: 'Another 2031' }),
        paper('Fire', 'Withdrawn'),
        paper('Stones', 'Accept (poster)'),
        paper('Told', 'Accept', { reviews: ['Decision: accept'] }),
        paper('Long', 'Accept', { abstract: 'a'.repeat(2000) }),
      ),
      { ...OWN, longest: 1000 },
    );
    expect(found.problems.map(({ options, correctOption }) => options[correctOption!])).toEqual([
      'ACCEPTED',
      'REJECTED',
      'ACCEPTED',
    ]);
    expect(found.skipped).toEqual({
      'another venue': 1,
      'asked before': 1,
      'its text tells the decision': 1,
      'neither accepted nor rejected': 1,
      'too long': 1,
    });
    expect(found).toMatchObject({
      licence: 'own writing',
      firstOptionShare: expect.closeTo(2 / 3, 12),
    });
    for (const { question } of found.problems) expect(question).not.toMatch(/SECRET|poster|oral/);
    expect(found.problems[0]!.question).toMatch(/A\. Author[^]*An older scale[^]*Weighed well/);
  });

  test('authors, reviews and references can be hidden', () => {
    const hidden = readPeerReviews(lines(...BOTH), {
      ...OWN,
      hide: ['authors', 'reviews', 'references'],
    }).problems[0]!;
    expect(hidden.question).not.toMatch(/A\. Author|An older scale|Weighed well/);
    expect(hidden.question).toMatch(/We weigh Stones/);
  });

  test.each([
    ['no abstract', lines(...BOTH, paper('A', 'Accept', { abstract: ' ' })), /line 5 [^]*abstract/],
    [
      'reviews that are no list',
      lines(...BOTH, paper('A', 'Accept', { reviews: 'good' })),
      /line 5 [^]*reviews/,
    ],
    [
      'one title decided twice',
      lines(...BOTH, paper('Stones', 'Reject')),
      /line 5 .*another decision/,
    ],
    ['accepted ones only', lines(BOTH[0]!), /1 papers are left/],
    ['no object', `${lines(...BOTH)}3`, /line 4/],
  ])('%s is refused', (_, text, message) => {
    refused(() => readPeerReviews(text, OWN), message);
  });

  test('terms of use have to be named', () => {
    refused(() => readPeerReviews(lines(...BOTH), { licence: ' ' }), /licence/, 'INVALID_ARGUMENT');
    refused(
      () => readPeerReviews(lines(...BOTH), { ...OWN, hide: ['decision' as never] }),
      /hide/,
      'INVALID_ARGUMENT',
    );
    refused(() => readPeerReviews('{', OWN), /line 1 is not JSON/, 'INVALID_ARGUMENT');
  });
});

describe('opinions', () => {
  test('a view to agree with or not, without an answer', () => {
    const found = readOpinions(
      lines(
        { title: 'CMV: Soup is a drink' },
        { title: 'cmv - Rain is better than sun.' },
        { title: 'A notice' },
        { title: 'CMV: Soup is a drink.' },
      ),
      OWN,
    );
    expect(found.problems.map(({ question }) => question)).toEqual([
      'Do you agree with this view? Soup is a drink.',
      'Do you agree with this view? Rain is better than sun.',
    ]);
    expect(found.problems.every(({ correctOption }) => correctOption === null)).toBe(true);
    expect(found.skipped).toEqual({ 'asked before': 1, 'no CMV before its title': 1 });
  });

  test('what has no view, or leaves nothing, is refused', () => {
    refused(
      () => readOpinions(lines({ title: 'CMV: A' }, { title: 'CMV:' }), OWN),
      /line 3 .*no view/,
    );
    refused(() => readOpinions(lines({ title: 'A notice' }), OWN), /no opinions are left/);
    refused(() => readOpinions(lines({ name: 'CMV: A' }), OWN), /line 1 [^]*title/);
  });
});

describe('discussions', () => {
  const talk = (title: string, ...scores: number[]): object => ({
    title: `CMV: ${title}`,
    body: 'Because.',
    replies: scores.map((score) => ({ text: `reply ${score}`, score })),
  });

  test('the reply that was liked best, where it is furthest ahead', () => {
    const found = readDiscussions(
      lines(
        talk('a', 2, 10),
        talk('b', 4, 3),
        talk('c', 9, 1, 3),
        talk('d', 2, 2),
        talk('e', 5),
        talk('f', 5, -1),
        talk('g', 8, 7),
      ),
      { ...OWN, share: 0.5 },
    );
    // ratios 5, 4/3, 3, 8/7: of four the better half
    expect(found.problems.map(({ question, reference }) => [question, reference])).toEqual([
      ['a\n\nBecause.', 'reply 10'],
      ['c\n\nBecause.', 'reply 9'],
    ]);
    expect(found.skipped).toEqual({
      'its best reply is not far enough ahead': 2,
      'no question, or fewer than two replies': 1,
      'no reply was liked best': 1,
      'no two replies that were liked': 1,
    });
  });

  test('a score that is no number is refused', () => {
    refused(
      () =>
        readDiscussions(lines({ title: 'CMV: a', replies: [{ text: 'b', score: 'much' }] }), OWN),
      /line 1 [^]*score/,
    );
  });
});

describe('conversations', () => {
  const said = (...turns: string[]): { role: string; content: string }[] =>
    turns.map((content, i) => ({ role: i % 2 === 0 ? 'user' : 'assistant', content }));

  test('what was asked first; toxic, redacted and other ones are left out', () => {
    const found = readConversations(
      lines(
        {
          conversation: [
            { role: 'system', content: 'Be brief.' },
            ...said('Why is it dark?', 'It is night.'),
          ],
          language: 'English',
        },
        { conversation: said('Why is it dark?'), language: 'English' },
        { conversation: said('Bad', 'No.'), language: 'English', toxic: true },
        { conversation: said('My name is NAME'), language: 'English', redacted: true },
        { conversation: said('Warum?'), language: 'German' },
        { conversation: said('Quoi?') },
        { conversation: said(' '), language: 'English' },
      ),
      { ...OWN, language: 'english' },
    );
    expect(found.problems.map(({ question, reference }) => [question, reference])).toEqual([
      ['Why is it dark?', null],
    ]);
    expect(found.skipped).toEqual({
      'another language': 2,
      'asked before': 1,
      'marked as redacted': 1,
      'marked as toxic': 1,
      'nothing was asked': 1,
    });
  });

  test('turns that do not take turns are refused', () => {
    refused(
      () =>
        readConversations(
          lines({ conversation: said('a') }, { conversation: said('a', 'b').reverse() }),
          OWN,
        ),
      /line 3 .*turn 1/,
    );
    refused(() => readConversations(lines({ conversation: [] }), OWN), /line 1/);
    refused(
      () => readConversations(lines({ conversation: said('') }), OWN),
      /no conversations are left/,
    );
  });
});

test('problems of a user are a domain like any other', () => {
  const { problems } = readOpinions(
    lines(...'abcd'.split('').map((view) => ({ title: `CMV: ${view}` }))),
    OWN,
  );
  const { train, test: held } = parts(importedDomain('opinions', 'views', problems));
  expect([train.length, held.length]).toEqual([2, 2]);
});
