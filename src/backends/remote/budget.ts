/**
 * What may be spent on a service. The upper bound of a request is reserved before it is sent, so
 * that no limit is ever passed, and what the service reports replaces it.
 */
import { IsoproError } from '../../errors.js';
import type { Spending } from '../backend.js';

export interface Price {
  /** For a million tokens of prompts and of replies, in a currency of your choice. */
  readonly prompt: number;
  readonly reply: number;
}

export interface BudgetLimits {
  readonly maxRequests?: number | undefined;
  /** Of prompts and replies together. */
  readonly maxTokensTotal?: number | undefined;
  /** Needs a price. */
  readonly maxCost?: number | undefined;
  readonly price?: Price | undefined;
}

export interface TokenCounts {
  readonly prompt: number;
  readonly reply: number;
  readonly reasoning?: number;
}

const MILLION = 1e6;

/** As it is added up here. */
type Counts = { -readonly [name in keyof Omit<Spending, 'cost'>]: number };

export class Budget {
  readonly #limits: BudgetLimits;
  readonly #open = new Set<TokenCounts>();
  #spent: Counts = {
    requests: 0,
    retries: 0,
    recorded: 0,
    promptTokens: 0,
    replyTokens: 0,
    reasoningTokens: 0,
  };
  #waiting: (() => void)[] = [];

  constructor(limits: BudgetLimits = {}) {
    this.#limits = limits;
  }

  get spending(): Spending {
    const { price } = this.#limits;
    if (price === undefined) return this.#spent;
    const { promptTokens: prompt, replyTokens: reply } = this.#spent;
    return { ...this.#spent, cost: this.#costOf({ prompt, reply }) };
  }

  found(): void {
    this.#add({ recorded: 1 });
  }

  /**
   * Reserves the upper bound of one request. Where only requests that are under way are in the way
   * of it, it waits for what they really cost.
   * @throws IsoproError BUDGET_EXHAUSTED
   */
  async reserve(most: TokenCounts, isRepeated: boolean): Promise<TokenCounts> {
    for (;;) {
      const exceeded = this.#exceeded(most);
      if (exceeded === null) break;
      if (this.#open.size === 0 || exceeded.isFinal)
        throw new IsoproError(
          'BUDGET_EXHAUSTED',
          `the next request could exceed the budget: ${exceeded.what}`,
        );
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    }
    const reserved = { ...most };
    this.#open.add(reserved);
    this.#add({ requests: 1, retries: isRepeated ? 1 : 0 });
    return reserved;
  }

  /** @param used null: nothing; undefined: it is not known, so all that was reserved */
  settle(reserved: TokenCounts, used: TokenCounts | null | undefined): void {
    this.#open.delete(reserved);
    const { prompt, reply, reasoning = 0 } = used ?? (used === null ? NOTHING : reserved);
    this.#add({ promptTokens: prompt, replyTokens: reply, reasoningTokens: reasoning });
    for (const wake of this.#waiting.splice(0)) wake();
  }

  #add(more: Partial<Counts>): void {
    const sum = { ...this.#spent };
    for (const name of Object.keys(more) as (keyof typeof sum)[]) sum[name] += more[name] ?? 0;
    this.#spent = sum;
  }

  #costOf({ prompt, reply }: TokenCounts): number {
    const { price = { prompt: 0, reply: 0 } } = this.#limits;
    return (prompt * price.prompt + reply * price.reply) / MILLION;
  }

  /** What of the limits a request would pass; `isFinal`: whatever those under way cost. */
  #exceeded(most: TokenCounts): { readonly what: string; readonly isFinal: boolean } | null {
    const { maxRequests, maxTokensTotal, maxCost } = this.#limits;
    const { requests, promptTokens, replyTokens } = this.#spent;
    if (maxRequests !== undefined && requests >= maxRequests)
      return { what: `${requests} of ${maxRequests} requests are used`, isFinal: true };
    let [prompt, reply] = [promptTokens, replyTokens];
    for (const each of this.#open) {
      prompt += each.prompt;
      reply += each.reply;
    }
    const next = most.prompt + most.reply;
    if (maxTokensTotal !== undefined && prompt + reply + next > maxTokensTotal)
      return {
        what: `${promptTokens + replyTokens} of ${maxTokensTotal} tokens are used, and it may take ${next}`,
        isFinal: promptTokens + replyTokens + next > maxTokensTotal,
      };
    const all = { prompt: prompt + most.prompt, reply: reply + most.reply };
    if (maxCost === undefined || this.#costOf(all) <= maxCost) return null;
    const spent = this.#costOf({ prompt: promptTokens, reply: replyTokens });
    const cost = this.#costOf(most);
    return {
      what: `${shown(spent)} of ${maxCost} is spent, and it may cost ${shown(cost)}`,
      isFinal: spent + cost > maxCost,
    };
  }
}

const shown = (cost: number): number => Number(cost.toPrecision(4));
const NOTHING: TokenCounts = { prompt: 0, reply: 0 };
