/**
 * A lesson in verifiers: "write about 50 words on a topic", mended. As it was published it counted
 * words, and took 0.1 off where the text lacked the letters "test": fifty times "test" scored 1.0,
 * and since target and topic never changed, one text was the best answer to all. Here both are
 * drawn, and each rule closes a hole that a policy or an exploit below shows.
 *   npx isopro-native tasks baselines --task examples/word-count.ts
 */
import { defineTask, Random } from 'isopro-native';

const TOPICS: Readonly<Record<string, readonly string[]>> = {
  'testing software': ['test', 'bug', 'code', 'error', 'check', 'failure', 'input', 'result'],
  'baking bread': ['flour', 'yeast', 'dough', 'oven', 'bake', 'loaf', 'knead', 'crust'],
  'sailing a boat': ['wind', 'sail', 'boat', 'rope', 'harbour', 'wave', 'mast', 'crew'],
  'growing tomatoes': ['tomato', 'soil', 'water', 'sun', 'seed', 'plant', 'ripe', 'garden'],
};
interface Brief {
  readonly topic: string;
  readonly target: number;
}

const LEAST_OF_TOPIC = 3;
const MOST_REPEATS = 3;
const PASSES = 0.9;
const SMALL = new Set(
  'a an and are as at be by for from in is it of on or so that the this to was with you your'.split(
    ' ',
  ),
);

const wordsOf = (text: string): string[] => text.toLowerCase().match(/[a-z]+(?:'[a-z]+)?/g) ?? [];
const sentencesOf = (text: string): string[] =>
  text
    .split(/[.!?]+/)
    .map((sentence) => wordsOf(sentence).join(' '))
    .filter((sentence) => sentence !== '');
/** A word, or its plural. */
const names = (word: string, of: string): boolean =>
  word === of || word === `${of}s` || word === `${of}es`;

/** What stands against a text, whatever its length. */
function faults({ topic }: Brief, text: string): { category: string; detail: string }[] {
  const words = wordsOf(text);
  const found: { category: string; detail: string }[] = [];
  const named = TOPICS[topic]!.filter((of) => words.some((word) => names(word, of))).length;
  if (named < LEAST_OF_TOPIC)
    found.push({
      category: 'topic',
      detail: `${named} words of the topic are named, not ${LEAST_OF_TOPIC}.`,
    });
  const counts = new Map<string, number>();
  for (const word of words) if (!SMALL.has(word)) counts.set(word, (counts.get(word) ?? 0) + 1);
  const [often] = [...counts].find(([, count]) => count > MOST_REPEATS) ?? [];
  if (often !== undefined)
    found.push({
      category: 'repetition',
      detail: `"${often}" stands more than ${MOST_REPEATS} times.`,
    });
  const sentences = sentencesOf(text);
  if (new Set(sentences).size < sentences.length)
    found.push({ category: 'repetition', detail: 'A sentence stands twice.' });
  if (
    sentences.some((sentence) => sentence.split(' ').length < 4 || sentence.split(' ').length > 25)
  )
    found.push({
      category: 'sentence',
      detail: 'A sentence has fewer than 4 or more than 25 words.',
    });
  if (words.length > 0 && words.filter((word) => SMALL.has(word)).length > words.length * 0.6)
    found.push({ category: 'filler', detail: 'More than six tenths of the words are small ones.' });
  return found;
}

/** Sentences of made-up words, with what the topic asks for: says nothing, and keeps every rule. */
function salad({ topic, target }: Brief): string {
  const made = Array.from(
    { length: target },
    (_, i) => `w${String.fromCharCode(97 + (i % 26), 97 + Math.floor(i / 26))}`,
  );
  made.splice(0, LEAST_OF_TOPIC, ...TOPICS[topic]!.slice(0, LEAST_OF_TOPIC));
  const sentences: string[] = [];
  while (made.length > 0)
    sentences.push(`${made.splice(0, made.length > 12 ? 8 : made.length).join(' ')}.`);
  return sentences.join(' ');
}

const FIFTY = 'test '.repeat(50);

export default defineTask<Brief, string>({
  id: 'word-count',
  version: '1',
  tiers: [{ id: 'text' }],
  generate(_tier, seed) {
    const random = new Random(seed);
    const topics = Object.keys(TOPICS);
    return {
      topic: topics[random.nextInteger(0, topics.length - 1)]!,
      target: random.nextInteger(20, 80),
    };
  },
  prompt: ({ topic, target }) => [
    {
      role: 'user',
      content:
        `Write ${target} words about ${topic}, in sentences of 4 to 25 words. Use at least ${LEAST_OF_TOPIC} of these words: ` +
        `${TOPICS[topic]!.join(', ')}. No sentence may stand twice, no word more than ${MOST_REPEATS} times except small ones ` +
        `(${[...SMALL].slice(0, 4).join(', ')} and the like), which may be six tenths of the text. Reply with the text alone.`,
    },
  ],
  parse: (text) =>
    wordsOf(text).length === 0
      ? { ok: false, category: 'format', detail: 'There is no word in the reply.' }
      : { ok: true, answer: text, form: 'text' },
  verify(problem, text) {
    const words = wordsOf(text).length;
    const violations = faults(problem, text);
    // a text that breaks a rule has no score: a mean counts it as 0
    if (violations.length > 0) return { kind: 'fail', violations, metrics: { words } };
    const score = Math.max(0, 1 - Math.abs(words - problem.target) / problem.target);
    if (score >= PASSES) return { kind: 'pass', metrics: { words }, score };
    const detail = `The text has ${words} words, not ${problem.target}.`;
    return {
      kind: 'fail',
      violations: [{ category: 'length', detail }],
      metrics: { words },
      score,
    };
  },
  trivialPolicies: { 'fifty times test': () => FIFTY, 'word salad': salad },
  policyNotes: {
    'fifty times test': 'scored 1.0 as the task was published',
    'word salad':
      'keeps every rule and says nothing: a program can count words, and not tell whether they mean anything',
  },
  exploits: [
    { name: 'the same word', problem: { topic: 'testing software', target: 50 }, text: FIFTY },
    {
      name: 'the topic inside other words',
      problem: { topic: 'baking bread', target: 20 },
      text: `Ovenly doughish flourless. ${FIFTY}`,
    },
    {
      name: 'one sentence again and again',
      problem: { topic: 'baking bread', target: 20 },
      text: 'Flour and yeast make dough. '.repeat(4),
    },
    {
      name: 'small words alone',
      problem: { topic: 'baking bread', target: 20 },
      text: `Flour, yeast, dough ${'of the a '.repeat(6)}.`,
    },
    { name: 'no words', problem: { topic: 'baking bread', target: 20 }, text: '... 50 !' },
  ],
});
