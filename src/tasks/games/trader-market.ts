/**
 * The market of `resource_trader`: prices, what a decision does, and the best that any decisions
 * come to. Money is in cents.
 */
import { mulberry32 } from './generators.js';

export const GOODS = ['wood', 'stone', 'food'] as const;
export type Good = (typeof GOODS)[number];

export const TURNS = 5;
export const MOST = 5;

/** Sells `amount` of one good and buys as many of another; 0 waits. */
export interface Decision {
  readonly buy: Good;
  readonly sell: Good;
  readonly amount: number;
}

/** What the trader has before a turn. */
export interface Holdings {
  readonly cents: number;
  readonly stock: Readonly<Record<Good, number>>;
}

export type Prices = Readonly<Record<Good, number>>;

export const START: Holdings = { cents: 10_000, stock: { wood: 5, stone: 5, food: 5 } };

/** Lowest price and range, in cents. */
const RANGES: Readonly<Record<Good, readonly [low: number, range: number]>> = {
  wood: [200, 600],
  stone: [300, 800],
  food: [100, 400],
};

/** @param turn from 0; each has a generator of its own */
export function pricesOf(seed: number, turn: number): Prices {
  const next = mulberry32(seed + turn * 7919);
  const price = (good: Good): number => Math.round(RANGES[good][0] + RANGES[good][1] * next());
  return { wood: price('wood'), stone: price('stone'), food: price('food') };
}

/** What a decision leaves; a sentence where it is not allowed. */
export function trade(
  { cents, stock }: Holdings,
  prices: Prices,
  { buy, sell, amount }: Decision,
): Holdings | string {
  if (amount === 0) return { cents, stock };
  if (buy === sell) return `You cannot buy and sell ${buy} in one turn.`;
  if (stock[sell] < amount) return `You have ${stock[sell]} ${sell}, not ${amount}.`;
  const left = cents + amount * (prices[sell] - prices[buy]);
  if (left < 0) return `You have too little gold for ${amount} ${buy}.`;
  return {
    cents: left,
    stock: { ...stock, [sell]: stock[sell] - amount, [buy]: stock[buy] + amount },
  };
}

/** 0.5 for the gold of the start, 0.01 more for each piece of it; within 0 and 1. */
export const scoreOf = (cents: number): number =>
  Math.min(1, Math.max(0, Math.round(cents - 5_000) / 10_000));

export const DECISIONS: readonly Decision[] = GOODS.flatMap((buy) =>
  GOODS.filter((sell) => sell !== buy).flatMap((sell) =>
    Array.from({ length: MOST }, (_, at) => ({ buy, sell, amount: at + 1 })),
  ),
);
export const WAIT: Decision = { buy: 'food', sell: 'stone', amount: 0 };

/**
 * The decisions that end with the most gold, all prices known: dynamic programming over what is in
 * stock, where more gold is never worse. An upper line, since nobody who plays knows the prices to
 * come.
 */
export function inHindsight(seed: number): readonly Decision[] {
  const key = ({ stock }: Holdings): string => GOODS.map((good) => stock[good]).join();
  let reached = new Map([[key(START), { holdings: START, decisions: [] as readonly Decision[] }]]);
  for (let turn = 0; turn < TURNS; turn++) {
    const prices = pricesOf(seed, turn);
    const next: typeof reached = new Map();
    for (const { holdings, decisions } of reached.values())
      for (const decision of [WAIT, ...DECISIONS]) {
        const after = trade(holdings, prices, decision);
        if (typeof after === 'string') continue;
        const known = next.get(key(after));
        if (known === undefined || after.cents > known.holdings.cents)
          next.set(key(after), { holdings: after, decisions: [...decisions, decision] });
      }
    reached = next;
  }
  return [...reached.values()].reduce((best, other) =>
    other.holdings.cents > best.holdings.cents ? other : best,
  ).decisions;
}
