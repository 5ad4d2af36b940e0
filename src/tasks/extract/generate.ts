import type { Random } from '../../random.js';
import { problemId } from '../problem-id.js';
import type { Tier } from '../task.js';
import { APPOINTMENT } from './appointment.js';
import type { DocumentKind, Role } from './document.js';
import { ORDER } from './order.js';
import type { ExtractProblem, Value } from './problem.js';
import { RECEIPT } from './receipt.js';
import { TICKET } from './ticket.js';
import {
  addDays,
  CURRENCIES,
  type Currency,
  type DateContext,
  spellAmount,
  spellDate,
  spellInteger,
  spellTime,
  type Spelling,
} from './values.js';
import { POOLS, type Phrasing } from './vocabulary.js';

type Range = readonly [low: number, high: number];

export interface TierShape extends Tier {
  /** Keys that are asked for. */
  readonly keys: number;
  /** Things that the message says beside them, of the same kinds as far as there are. */
  readonly distractors: Range;
  /** Of the keys, those of which the message says nothing. */
  readonly absent: Range;
  readonly layout: 'lines' | 'prose' | 'either';
  readonly spelling: Spelling;
  /**
   * Whether the message's own day is stated, so that dates may be told by their distance from it.
   */
  readonly today: boolean;
}

const tier = (
  keys: number,
  title: string,
  distractors: Range,
  absent: Range,
  layout: TierShape['layout'],
  spelling: Spelling,
  today: boolean,
): TierShape => ({
  id: `X${keys}`,
  title,
  trains: keys < 6,
  keys,
  distractors,
  absent,
  layout,
  spelling,
  today,
});

export const TIERS: readonly TierShape[] = [
  tier(2, '2 keys, lines, plain values', [0, 1], [0, 0], 'lines', 'plain', false),
  tier(3, '3 keys, lines or prose, values by name', [1, 1], [0, 0], 'either', 'named', false),
  tier(4, '4 keys, prose, 2 distractors, free spelling', [2, 2], [0, 0], 'prose', 'free', false),
  tier(
    5,
    '5 keys, one of them perhaps absent, 3 distractors, relative dates',
    [3, 3],
    [0, 1],
    'prose',
    'free',
    true,
  ),
  tier(
    6,
    '6 keys, one or two absent, 4 distractors, relative dates',
    [4, 4],
    [1, 2],
    'prose',
    'free',
    true,
  ),
];

export const DOCUMENTS: readonly DocumentKind[] = [ORDER, TICKET, APPOINTMENT, RECEIPT];

/** A thing that the message says. */
interface Told {
  readonly role: Role;
  readonly value: Value;
  /** As it stands in the message. */
  readonly words: string;
}

const pick = <T>(random: Random, items: readonly T[]): T =>
  items[random.nextInteger(0, items.length - 1)]!;

/** Of one message: the currency of its amounts and what the prompt says about its dates. */
interface Setting extends DateContext {
  readonly phrasing: Phrasing;
  readonly spelling: Spelling;
  readonly day: string;
  readonly currency: Currency;
}

function draw(
  random: Random,
  role: Role,
  { phrasing, spelling, day, currency, ...dates }: Setting,
): Told {
  switch (role.kind) {
    case 'text': {
      const value = POOLS[phrasing][role.pool].map((list) => pick(random, list)).join(' ');
      return { role, value, words: value };
    }
    case 'integer': {
      const value = random.nextInteger(role.from, role.to);
      return { role, value, words: spellInteger(random, spelling, value) };
    }
    case 'amount': {
      const whole = random.nextInteger(role.from, role.to);
      const cents = 100 * whole + (random.nextInteger(0, 2) === 0 ? 0 : random.nextInteger(1, 99));
      return { role, value: cents / 100, words: spellAmount(random, spelling, cents, currency) };
    }
    case 'date': {
      const value = addDays(day, random.nextInteger(role.from, role.to));
      return { role, value, words: spellDate(random, spelling, value, dates) };
    }
    case 'time': {
      const minutes =
        60 * random.nextInteger(8, 21) +
        5 *
          (random.nextInteger(0, 1) === 0
            ? 6 * random.nextInteger(0, 1)
            : random.nextInteger(1, 11));
      const value = `${String(Math.floor(minutes / 60)).padStart(2, '0')}:${String(minutes % 60).padStart(2, '0')}`;
      return { role, value, words: spellTime(random, spelling, value) };
    }
    case 'boolean': {
      const value = random.nextInteger(0, 1) === 1;
      return { role, value, words: value ? 'yes' : 'no' };
    }
    case 'currency':
      return { role, value: currency, words: '' };
  }
}

/** As `draw`, until no other thing of the kind has the value: each value of a kind is told once. */
function drawNew(random: Random, role: Role, setting: Setting, told: readonly Told[]): Told {
  for (;;) {
    const drawn = draw(random, role, setting);
    if (
      role.kind === 'boolean' ||
      told.every((other) => other.role.kind !== role.kind || other.value !== drawn.value)
    )
      return drawn;
  }
}

function tell(
  random: Random,
  { role, value, words }: Told,
  phrasing: Phrasing,
  layout: 'lines' | 'prose',
): string {
  const { labels, sentences } = role[phrasing];
  if (layout === 'lines') return `${pick(random, labels)}: ${words}`;
  const sentence = pick<string | readonly [string, string]>(random, sentences);
  const said =
    typeof sentence === 'string'
      ? sentence.replace('{}', () => words)
      : sentence[value === true ? 0 : 1];
  return said.charAt(0).toUpperCase() + said.slice(1);
}

/** Roles that the message says though nobody asks: of the kinds that are asked for first. */
function chooseDistractors(
  random: Random,
  roles: readonly Role[],
  asked: readonly Role[],
  count: number,
): Role[] {
  const kinds = new Set(asked.map(({ kind }) => kind));
  const others = random.shuffle(
    roles.filter((role) => role.kind !== 'currency' && !asked.includes(role)),
  );
  const misleading = others.filter(({ kind }) => kinds.has(kind));
  return [...misleading, ...others.filter((role) => !misleading.includes(role))].slice(0, count);
}

/**
 * Some roles, with at least one text among them; the currency only beside an amount that is said.
 */
function chooseAsked(
  random: Random,
  roles: readonly Role[],
  { keys, absent }: TierShape,
): { asked: Role[]; missing: Set<Role> } {
  for (;;) {
    const asked = random.shuffle(roles).slice(0, keys);
    const missing = new Set(
      asked.filter(({ kind }) => kind !== 'currency').slice(0, random.nextInteger(...absent)),
    );
    const said = asked.filter((role) => !missing.has(role));
    if (!said.some(({ kind }) => kind === 'text')) continue;
    if (
      asked.some(({ kind }) => kind === 'currency') &&
      !said.some(({ kind }) => kind === 'amount')
    )
      continue;
    return { asked, missing };
  }
}

/**
 * Draws a message and what is asked about it. The value of each key is known by construction: it is
 * told once, in words that have one reading under what the prompt states, and whatever else the
 * message tells has another role and, within a kind, another value.
 */
export function drawProblem(
  task: string,
  shape: TierShape,
  random: Random,
  phrasing: Phrasing,
): ExtractProblem {
  const document = pick(random, DOCUMENTS);
  const day = addDays('2025-01-01', random.nextInteger(0, 1000));
  const slashes = shape.spelling === 'free' && random.nextInteger(0, 1) === 0;
  const setting: Setting = {
    phrasing,
    spelling: shape.spelling,
    day,
    currency: pick(random, CURRENCIES),
    today: shape.today ? day : null,
    dayFirst: slashes ? random.nextInteger(0, 1) === 0 : null,
  };
  const { asked, missing } = chooseAsked(random, document.roles, shape);
  const distractors = chooseDistractors(
    random,
    document.roles,
    asked,
    random.nextInteger(...shape.distractors),
  );
  const told: Told[] = [];
  for (const role of [...asked, ...distractors])
    if (!missing.has(role)) told.push(drawNew(random, role, setting, told));
  const layout =
    shape.layout === 'either' ? pick(random, ['lines', 'prose'] as const) : shape.layout;
  const parts = random
    .shuffle(told.filter(({ role }) => role.kind !== 'currency'))
    .map((thing) => tell(random, thing, phrasing, layout));
  const message =
    layout === 'lines'
      ? parts.join('\n')
      : [
          pick(random, document.openings[phrasing]),
          ...parts,
          pick(random, document.closings[phrasing]),
        ]
          .filter((part) => part !== '')
          .join(' ');
  const fields = asked.map((role) => {
    const found = told.find((thing) => thing.role === role);
    return {
      key: pick(random, role[phrasing].keys),
      kind: role.kind,
      meaning: role.meaning,
      value: found === undefined ? null : found.value,
    };
  });
  const content = {
    task,
    tier: shape.id,
    today: setting.today,
    dayFirst: /\d\/\d/.test(message) ? setting.dayFirst : null,
    schema: fields.map(({ key, kind, meaning }) => ({ key, kind, meaning })),
    message,
    expected: Object.fromEntries(fields.map(({ key, value }) => [key, value])),
  };
  return { id: problemId(content), ...content };
}
