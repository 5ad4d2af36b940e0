import { replyTokens } from '../fine-tuning/training-examples.js';
import type { Model } from '../engine/model.js';
import { IsoproError } from '../errors.js';
import type { DevReply } from '../run-folder/evaluation-records.js';
import type { ReferenceRecord } from '../run-folder/rollout-records.js';
import { failing } from './hard-fail.js';

/**
 * Checks that the text of a logged reply is what its tokens decode to, and that its finish follows
 * from its last tokens.
 */

export type LoggedReply = Pick<DevReply, 'problemId' | 'finish' | 'tokenIds' | 'turns'>;

const fail = failing('rollout_verification');

export const NOT_SAID = 'the text does not match the sampled tokens';

/**
 * Reads replies of at most `maxTokens` tokens that end before a stop string; a reply that its
 * tokens contradict is a hard fail.
 */
export class ReplyReader {
  readonly #ends: ReadonlySet<number>;

  constructor(
    readonly model: Pick<
      Model,
      'info' | 'endOfAnswer' | 'formerEndOfAnswer' | 'tokenize' | 'detokenize'
    >,
    readonly maxTokens: number,
    readonly stop: readonly string[] = [],
  ) {
    this.#ends = new Set(model.info.ends);
  }

  /** Returns the texts of an episode's replies. @throws HardFail */
  read(
    gseq: number,
    { tokenIds, finish, turns = [] }: Pick<LoggedReply, 'tokenIds' | 'finish' | 'turns'>,
  ): string[] {
    let at = 0;
    const earlier = turns.map(({ tokens, text }) => {
      const said = this.#readOne(gseq, {
        tokenIds: tokenIds.slice(at, (at += tokens)),
        finish: 'stop',
      });
      if (said !== text) fail(`record ${gseq}: ${NOT_SAID}`);
      return said;
    });
    // where there is no room for another turn, the last reply ended by itself as those before it
    // did
    return [
      ...earlier,
      this.#readOne(gseq, {
        tokenIds: tokenIds.slice(at),
        finish: finish === 'context' ? 'stop' : finish,
      }),
    ];
  }

  /**
   * Checks that a task's own reply has the tokens in which the model would give it, now or when the
   * run was made.
   * @throws HardFail
   */
  checkReference(
    gseq: number,
    { text, tokenIds }: Pick<ReferenceRecord, 'text' | 'tokenIds'>,
  ): void {
    const { endOfAnswer, formerEndOfAnswer } = this.model;
    const isSaid = [endOfAnswer, formerEndOfAnswer].some(
      (end) => replyTokens(this.model, text, end).join() === tokenIds.join(),
    );
    if (tokenIds.length > this.maxTokens || !isSaid)
      fail(`record ${gseq}: the tokens of the reference do not match its text`);
  }

  #readOne(gseq: number, { tokenIds, finish }: Pick<LoggedReply, 'tokenIds' | 'finish'>): string {
    const refuse = (what: string): never => fail(`record ${gseq}: ${what}`);
    const end = tokenIds.findIndex((id) => this.#ends.has(id));
    const last = tokenIds.length - 1;
    if (tokenIds.length === 0 || tokenIds.length > this.maxTokens || finish === 'aborted')
      refuse(`a reply of ${tokenIds.length} tokens cannot have the finish reason ${finish}`);
    if (finish === 'stop' && end !== -1 && end !== last)
      refuse('a reply that ended by itself continues after its end token');
    if (finish === 'length' && end !== -1) refuse('a reply that was cut off contains an end token');
    if (finish === 'length' && tokenIds.length !== this.maxTokens)
      refuse(`a reply was cut off after ${tokenIds.length} tokens, not ${this.maxTokens}`);
    const said = (ids: readonly number[]): string => {
      try {
        return this.model.detokenize(ids);
      } catch (error) {
        if (error instanceof IsoproError && error.code === 'INVALID_ARGUMENT')
          return refuse(error.message);
        throw error;
      }
    };
    if (finish === 'stop' && end === -1) {
      const text = said(tokenIds);
      const [stop] = this.#stopsIn(text);
      if (stop === undefined)
        return refuse(
          `a reply that ended by itself has no end token${this.stop.length === 0 ? '' : ' and no stop string'}`,
        );
      if (this.#stopsIn(said(tokenIds.slice(0, last))).length > 0)
        refuse('a reply continues after its stop string');
      return text.slice(0, stop);
    }
    // the token that ended the turn is not text, whatever its kind
    const text = said(finish === 'stop' ? tokenIds.slice(0, last) : tokenIds);
    if (this.#stopsIn(text).length > 0) refuse('a reply continues after its stop string');
    return text;
  }

  /** Returns the positions of stop strings, ascending. */
  #stopsIn(text: string): number[] {
    return this.stop
      .map((stop) => text.indexOf(stop))
      .filter((at) => at >= 0)
      .sort((a, b) => a - b);
  }
}
