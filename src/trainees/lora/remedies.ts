/**
 * What can be done to LoRA weights about each rule: the table that the menu lists and that the
 * script chooses from.
 */
import { ownValue } from '../../dictionary.js';
import type { Breach, Remedy } from '../../monitor/trainee.js';
import { median } from '../../monitor/smoothing.js';
import { module as moduleName, type LoraOperation } from './operations.js';
import type { TrainerSettings } from './settings.js';

type LoraRemedy = Remedy<LoraOperation>;
type Asked = Breach<TrainerSettings>;

/** The most operations that a decision holds (`decisionSchema`). */
const MOST_OPERATIONS = 64;
/** A rank is not raised beyond it. */
const HIGHEST_RANK = 128;
const SMALLEST_BATCH = 8;
const LARGEST_BATCH = 65_536;
/** Adam's epsilon is not lowered beyond it: an f32 moment of that size is nearly zero. */
const LOWEST_EPSILON = 1e-30;

/** Factors by name, each with what it makes of a number. The names are parts of ids. */
const UP: readonly (readonly [string, (x: number) => number])[] = [
  ['1.5', (x) => x * 1.5],
  ['2', (x) => x * 2],
  ['3', (x) => x * 3],
];
const DOWN: readonly (readonly [string, (x: number) => number])[] = [
  ['1/3', (x) => x / 3],
  ['1/5', (x) => x / 5],
  ['1/10', (x) => x / 10],
];
const RANKS = [1.5, 2, 4];

const shown = (x: number): string => String(Number(x.toPrecision(4)));

/** Names that a file brought are told as quoted data, and only a few of them. */
function listed(names: readonly string[]): string {
  const few = names.slice(0, 3).map((name) => JSON.stringify(name.slice(0, 60)));
  const rest = names.length - few.length;
  return few.join(', ') + (rest > 0 ? ` and ${rest} more` : '');
}

/** One operation for each module, as many as a decision holds; null where there is none. */
function onEach(
  modules: readonly string[],
  id: string,
  words: (names: string) => string,
  operation: (module: string) => LoraOperation | null,
): LoraRemedy | null {
  const named = modules
    .filter((module) => moduleName.safeParse(module).success)
    .map((module) => [module, operation(module)] as const)
    .filter((each): each is readonly [string, LoraOperation] => each[1] !== null)
    .slice(0, MOST_OPERATIONS);
  return named.length === 0
    ? null
    : {
        id,
        words: words(listed(named.map(([module]) => module))),
        edit: named.map(([, of]) => of),
      };
}

const isRate = (rate: number): boolean => rate > 0 && rate <= 1;

function rates({ side, settings: { learningRate } }: Asked): LoraRemedy[] {
  return (side === 'low' ? UP : DOWN).flatMap(([times, of]): LoraRemedy[] => {
    const to = of(learningRate);
    return isRate(learningRate) && isRate(to)
      ? [
          {
            id: `set_lr x${times}`,
            words: `multiply the learning rate by ${times}, to ${shown(to)}`,
            edit: [{ op: 'set_lr', from: learningRate, to }],
          },
        ]
      : [];
  });
}

function batches({ side, settings: { batchSize, maxBatchSize } }: Asked): LoraRemedy[] {
  const up = side === 'high';
  const to = up ? batchSize * 2 : Math.max(SMALLEST_BATCH, Math.ceil(batchSize / 2));
  if (to > Math.min(maxBatchSize, LARGEST_BATCH) || to > batchSize !== up || to === batchSize)
    return [];
  return [
    {
      id: `set_batch x${up ? '2' : '1/2'}`,
      words: `change the batch from ${batchSize} to ${to} sequences a step`,
      edit: [{ op: 'set_batch', from: batchSize, to }],
    },
  ];
}

function capacity({ modules, settings }: Asked): (LoraRemedy | null)[] {
  const usual = Math.round(median(Object.values(settings.modules).map(({ rank }) => rank)));
  return [
    ...RANKS.map((times) =>
      onEach(
        modules,
        `raise_rank x${times}`,
        (names) => `raise the rank of the full modules ${times} times: ${names}`,
        (module) => {
          const rank = ownValue(settings.modules, module)?.rank;
          if (rank === undefined || rank >= HIGHEST_RANK) return null;
          const to = Math.min(HIGHEST_RANK, Math.ceil(rank * times));
          return { op: 'raise_rank', module, from: rank, to };
        },
      ),
    ),
    onEach(
      settings.unadapted,
      'add_target',
      (names) => `adapt further linear maps of the trained layers: ${names}`,
      (module) => (usual >= 1 ? { op: 'add_target', module, rank: Math.min(1024, usual) } : null),
    ),
  ];
}

const dormancy = ({ modules, settings }: Asked): (LoraRemedy | null)[] => [
  onEach(
    modules,
    'recycle',
    (names) => `draw the dormant directions again, with zero output: ${names}`,
    (module) => {
      const directions = ownValue(settings.modules, module)?.dormantDirections.slice(0, 1024) ?? [];
      return directions.length === 0 ? null : { op: 'recycle', module, directions };
    },
  ),
];

function vanishing({ modules, settings }: Asked): (LoraRemedy | null)[] {
  const scaleOf = (module: string): number => ownValue(settings.modules, module)?.scale ?? NaN;
  const usual = median(Object.values(settings.modules).map(({ scale }) => scale));
  const { epsilon } = settings;
  const lower = epsilon / 100;
  return [
    onEach(
      modules,
      'rescale usual',
      (names) => `bring the scale of the shrunk modules back to the usual one: ${names}`,
      (module) => {
        const scale = scaleOf(module);
        return scale > 0 && scale < usual / 10
          ? { op: 'rescale', module, factor: Math.min(1e6, usual / scale) }
          : null;
      },
    ),
    onEach(
      modules,
      'lr_mult x4',
      (names) => `train these modules at 4 times the learning rate: ${names}`,
      (module) => ({ op: 'lr_mult', module, factor: 4 }),
    ),
    lower < LOWEST_EPSILON || lower > 1e-3
      ? null
      : {
          id: 'raise_precision',
          words: `lower Adam's epsilon from ${shown(epsilon)} to ${shown(lower)}`,
          edit: [{ op: 'raise_precision', adamEps: lower }],
        },
    onEach(
      modules,
      'rebalance x4',
      (names) => `multiply A by 4 and divide B by 4, so that B gets larger gradients: ${names}`,
      (module) => ({ op: 'rebalance', module, factor: 4 }),
    ),
    onEach(
      modules,
      'rescale x4',
      (names) => `multiply the scale by 4 and divide B by 4: ${names}`,
      (module) => ({ op: 'rescale', module, factor: 4 }),
    ),
  ];
}

function explosion({ side, settings }: Asked): LoraRemedy[] {
  const { learningRate, maxGradNorm, lastSoundAdapter } = settings;
  const tenth = learningRate / 10;
  const maxNorm = Math.min(1, maxGradNorm);
  const clip = (norm: number): LoraOperation => ({ op: 'set_clip', maxNorm: norm });
  const rated = isRate(learningRate) && isRate(tenth) && maxNorm > 0;
  return [
    ...(side === 'nonfinite'
      ? [
          {
            id: 'skip_step',
            words: 'leave out the broken steps and continue',
            edit: [{ op: 'skip_step' }],
          } as const,
        ]
      : []),
    ...(rated
      ? [
          {
            id: 'rollback',
            words:
              `go back to the last sound adapter, at a tenth of the learning rate (${shown(tenth)}), ` +
              `and clip gradients to ${shown(maxNorm)}`,
            edit: [{ op: 'rollback', to: lastSoundAdapter, learningRate: tenth, maxNorm }],
          } as const,
          {
            id: 'set_lr x1/10, set_clip',
            words: `divide the learning rate by 10, to ${shown(tenth)}, and clip gradients to ${shown(maxNorm)}`,
            edit: [{ op: 'set_lr', from: learningRate, to: tenth }, clip(maxNorm)],
          } as const,
        ]
      : []),
    ...(maxNorm / 2 > 0
      ? [
          {
            id: 'set_clip',
            words: `clip gradients to ${shown(maxNorm / 2)}; the learning rate stays`,
            edit: [clip(maxNorm / 2)],
          },
        ]
      : []),
  ];
}

function all(breach: Asked): readonly (LoraRemedy | null)[] {
  switch (breach.rule) {
    case 'R1':
      return rates(breach);
    case 'R2':
      return batches(breach);
    case 'R3':
      return [
        {
          id: 'stop',
          words: 'end the run and submit the best adapter so far',
          edit: [{ op: 'stop', restore: breach.settings.bestAdapter }],
        },
      ];
    case 'R4':
      return capacity(breach);
    case 'R5':
      return dormancy(breach);
    case 'R6':
      return vanishing(breach);
    case 'R7':
      return explosion(breach);
  }
}

/** Every admissible remedy; where two do the same, only the first. */
export function remedies(breach: Asked): LoraRemedy[] {
  const found = all(breach).filter((remedy) => remedy !== null);
  const edits = found.map(({ edit }) => JSON.stringify(edit));
  return found.filter((_, i) => edits.indexOf(edits[i]!) === i);
}
