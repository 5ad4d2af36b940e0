/**
 * Towns that do not exist, in a table that the question gives. A rule joins two of its columns and
 * holds for towns that the table leaves out as well, so that a question about those is a forecast
 * whose outcome is known and cannot have been read anywhere.
 */
import type { Random } from '../../random.js';
import { binaryProblem, type BinaryProblem, type Option } from '../problem.js';
import type { GeneratedDomain } from './domain.js';

/** A row of the table. */
export interface Town {
  readonly name: string;
  /** Metres above the sea, a multiple of ten. */
  readonly altitude: number;
  readonly inhabitants: number;
  /** Follows from the altitude by the world's rule. */
  readonly wells: number;
}

const STARTS = [
  'Bral',
  'Cor',
  'Dun',
  'Fel',
  'Gar',
  'Hol',
  'Ister',
  'Lum',
  'Mor',
  'Nev',
  'Ost',
  'Pell',
  'Quor',
  'Sten',
  'Tarr',
  'Vel',
] as const;
const ENDS = ['aby', 'eck', 'ford', 'immer', 'olm', 'undra'] as const;
const SHOWN = 5;
const HELD_OUT = 2;
/**
 * Two columns that are drawn freely: the one that the rule joins is asked about in towns that are
 * left out.
 */
const COMPARED = ['altitude', 'inhabitants'] as const;

function drawTowns(random: Random): Town[] {
  const count = SHOWN + HELD_OUT;
  const different = (from: readonly number[]): number[] => random.shuffle(from).slice(0, count);
  const names = random.shuffle(STARTS).slice(0, count);
  const altitudes = different(Array.from({ length: 60 }, (_, i) => 10 * (i + 3)));
  const inhabitants = different(Array.from({ length: 90 }, (_, i) => 100 * (i + 5)));
  const [first, rise] = [random.nextInteger(2, 30), random.nextInteger(1, 4)];
  return names.map((name, i) => ({
    name: name + ENDS[random.nextInteger(0, ENDS.length - 1)]!,
    altitude: altitudes[i]!,
    inhabitants: inhabitants[i]!,
    wells: first + (rise * altitudes[i]!) / 10,
  }));
}

const row = ({ name, altitude, inhabitants, wells }: Town): string =>
  `${name} | ${altitude} | ${inhabitants} | ${wells}`;

function drawProblem(random: Random): BinaryProblem {
  const towns = drawTowns(random);
  const [shown, heldOut] = [towns.slice(0, SHOWN), towns.slice(SHOWN)];
  const table = `Town | Altitude in metres | Inhabitants | Wells\n${shown.map(row).join('\n')}`;
  const about = {
    shown: shown.map((each) => ({ ...each })),
    heldOut: heldOut.map((each) => ({ ...each })),
  };
  if (random.nextInteger(0, 1) === 0) {
    const [one, other] = random.shuffle(shown) as [Town, Town];
    const column = COMPARED[random.nextInteger(0, 1)]!;
    const asked =
      column === 'altitude'
        ? 'Which of the two lies higher'
        : 'Which of the two has more inhabitants';
    return binaryProblem({
      question: `${table}\n\n${asked}, ${one.name} or ${other.name}?`,
      options: [one.name, other.name],
      correctOption: one[column] > other[column] ? 0 : 1,
      about: { ...about, asked: 'table' },
    });
  }
  const { name, altitude, wells } = heldOut[random.nextInteger(0, HELD_OUT - 1)]!;
  const option: Option = random.nextInteger(0, 1) === 0 ? 0 : 1;
  const distance = random.nextInteger(1, 9);
  const bound = option === 0 ? wells - distance : wells + distance - 1;
  return binaryProblem({
    question:
      `${table}\n\nIn this land the number of wells follows from the altitude by one rule without exception. ` +
      `${name} is not in the table and lies at ${altitude} metres. Has it more than ${bound} wells?`,
    options: ['Yes', 'No'],
    correctOption: option,
    about: { ...about, asked: 'held out' },
  });
}

export const SMALL_WORLD: GeneratedDomain = {
  source: 'generated',
  kind: 'binary',
  id: 'small-world',
  what: 'invented towns: questions about their table and about towns that it omits',
  version: 1,
  balanced: true,
  trainShare: 0.75,
  draw: drawProblem,
};
