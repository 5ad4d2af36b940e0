/**
 * The real language model, where `npm run test:real` says that it lies, and prompts as people write
 * them.
 */
import { loadModel, type Model } from '../../src/index.js';

const found = process.env.ISOPRO_REAL_MODEL;
if (found === undefined)
  throw new Error('run these tests by `npm run test:real`, which fetches the model');

export const REAL_MODEL = found;

/** One thread, since the peers that it is held against get one too. */
export const loadReal = (file = REAL_MODEL): Promise<Model> => loadModel(file, { threads: 1 });

const SUBJECTS = [
  'the sea',
  'a lost key',
  'two trains',
  'my neighbour Anna',
  'an empty jar',
  'Tuesday',
  'le café',
  'the number 17',
  '猫',
  'SQL',
];
const FRAMES = [
  (subject: string) => `Write one sentence about ${subject}.`,
  (subject: string) => `Translate into French: "I have seen ${subject}."`,
  (subject: string) => `Which word is missing? "We talked about ${subject} until the ___ rose."`,
  (subject: string) => `Return JSON with the keys "subject" and "letters" for ${subject}.`,
  (subject: string) => `List three things that have to do with ${subject}:\n1.`,
];

/** Fifty, no two alike. */
export const PROMPTS: readonly string[] = SUBJECTS.flatMap((subject) =>
  FRAMES.map((frame) => frame(subject)),
);
