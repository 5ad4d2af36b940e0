/** What `train` keeps beside the adapter: its state, its losses, the best adapter so far. */
import { appendFileSync, existsSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { z } from 'zod';
import { writeFileAtomically } from '../engine/atomic-file.js';
import type { ValidationLoss } from '../engine/fine-tuning.js';
import { IsoproError } from '../errors.js';
import { readJson, requireTarget, unwritable } from '../files.js';
import { UsageError } from './output.js';

const line = z.union([
  z.object({ step: z.int(), loss: z.number() }),
  z.object({ step: z.int(), validationLoss: z.number() }),
]);
type Line = z.output<typeof line>;

const setting = z.union([z.string(), z.number(), z.boolean(), z.null()]);
/** What decides the course of a training, by flag; null where a flag was not given. */
export type TrainSettings = Readonly<Record<string, z.output<typeof setting>>>;
export const DATA_HASH = 'data-hash';
/** What made the tokens of rows. */
const RENDERER = 'renderer';
const END_OF_ANSWER = 'end-of-answer';
/** Of a model, with what it was until the renderer was corrected; states of then say neither. */
export interface RowTokens {
  readonly rendererId: string;
  readonly formerRendererId: string | null;
  readonly endOfAnswer: number;
  readonly formerEndOfAnswer: number;
}
const shown = (value: TrainSettings[string]): string =>
  value === null ? 'left out' : String(value);

export class TrainFiles {
  readonly out: string;
  readonly state: string;
  readonly best: string;
  /** A line a step, `{"step", "loss"}`, and one a measurement, `{"step", "validationLoss"}`. */
  readonly losses: string;
  readonly trackers: string;
  /** What the base model says of preference pairs. */
  readonly references: string;
  /** What the state was begun with. */
  readonly settings: string;
  #lines: Line[] = [];

  constructor(out: string) {
    this.out = out;
    this.state = `${out}.state`;
    this.settings = `${out}.state.json`;
    this.best = `${out}.best`;
    this.losses = `${out}.losses.jsonl`;
    this.references = `${out}.reference.json`;
    this.trackers = `${out}.trackers`;
  }

  /**
   * Before anything is computed.
   * @throws UsageError where something would be lost, or there is nothing to go on from;
   *   IsoproError WRITE_FAILED
   */
  check({ resume, force }: { readonly resume: boolean; readonly force: boolean }): void {
    if (resume && force)
      throw new UsageError('--resume goes on and --force begins anew: give one of them.');
    if (resume && !existsSync(this.state))
      throw new UsageError(`--resume: there is no ${this.state}`);
    if (!resume && !force) {
      if (existsSync(this.out))
        throw new UsageError(
          `${this.out} is there already: --force replaces it, or give another --out.`,
        );
      if (existsSync(this.state))
        throw new UsageError(
          `${this.state} is of a training that was interrupted: --resume goes on with it, --force begins anew.`,
        );
    }
    for (const target of [this.out, this.state, this.losses]) requireTarget(target);
  }

  /**
   * Before a training goes on; where nothing is known of how it was begun, it does.
   * @throws IsoproError INVALID_ARGUMENT naming what differs
   */
  checkSame(settings: TrainSettings): void {
    const before = existsSync(this.settings)
      ? z.record(z.string(), setting).safeParse(readJson(this.settings)).data
      : undefined;
    if (before === undefined) return;
    const differing = Object.entries(settings).flatMap(([flag, value]) => {
      const was = before[flag] ?? null;
      if (was === value) return [];
      return flag === DATA_HASH
        ? ['another content of --data, or of the split beside it']
        : [`--${flag} ${shown(value)}, which was ${shown(was)}`];
    });
    if (differing.length === 0) return;
    throw new IsoproError(
      'INVALID_ARGUMENT',
      `--resume: ${this.state} was begun otherwise: now ${differing.join('; ')}`,
      {
        remedy:
          'Resume with the flags and the data that it was begun with, or begin anew with --force in place of --resume.',
      },
    );
  }

  /**
   * Before a training goes on: its rows are the tokens that it began with.
   * @throws IsoproError INVALID_ARGUMENT
   */
  checkTokens({ rendererId, formerRendererId, endOfAnswer, formerEndOfAnswer }: RowTokens): void {
    const before = existsSync(this.settings)
      ? z.record(z.string(), setting).safeParse(readJson(this.settings)).data
      : undefined;
    const wasRendered = before?.[RENDERER] ?? formerRendererId ?? rendererId;
    const ended = before?.[END_OF_ANSWER] ?? formerEndOfAnswer;
    const differing = [
      ...(wasRendered === rendererId
        ? []
        : [
            "the renderer was corrected since, and writes other prompts from the model's chat template",
          ]),
      ...(ended === endOfAnswer
        ? []
        : [
            `an answer now ends with the token ${endOfAnswer}, which the renderer writes after a reply, and ended with ${ended} before`,
          ]),
    ];
    if (differing.length === 0) return;
    throw new IsoproError(
      'INVALID_ARGUMENT',
      `--resume: ${this.state} was begun by another version: ${differing.join('; ')}`,
      {
        remedy:
          'Start again with --force instead of --resume, or continue with the version of isopro-native that began it.',
      },
    );
  }

  /**
   * Begins the losses, or keeps those of the steps that are not taken again.
   * @param steps that were taken
   */
  async open(
    steps: number,
    course: TrainSettings,
    { rendererId, endOfAnswer }: RowTokens,
  ): Promise<void> {
    const settings = { ...course, [RENDERER]: rendererId, [END_OF_ANSWER]: endOfAnswer };
    if (steps === 0) rmSync(this.state, { force: true }); // of a training that this one replaces
    await writeFileAtomically(this.settings, [Buffer.from(`${JSON.stringify(settings)}\n`)]);
    this.#lines =
      steps === 0 || !existsSync(this.losses)
        ? []
        : this.#read().filter(({ step }) => step <= steps);
    await writeFileAtomically(this.losses, [
      Buffer.from(this.#lines.map((each) => `${JSON.stringify(each)}\n`).join('')),
    ]);
  }

  #read(): Line[] {
    return readFileSync(this.losses, 'utf8')
      .split('\n')
      .flatMap((text) => {
        try {
          const parsed = line.safeParse(JSON.parse(text));
          return parsed.success ? [parsed.data] : [];
        } catch {
          return []; // the last line of a process that was killed
        }
      });
  }

  add(entry: Line): void {
    this.#lines.push(entry);
    try {
      appendFileSync(this.losses, `${JSON.stringify(entry)}\n`);
    } catch (cause) {
      throw unwritable(this.losses, cause);
    }
  }

  get training(): { readonly step: number; readonly loss: number }[] {
    return this.#lines.flatMap((each) => ('loss' in each ? [each] : []));
  }

  get validation(): ValidationLoss[] {
    return this.#lines.flatMap((each) =>
      'loss' in each ? [] : [{ step: each.step, loss: each.validationLoss }],
    );
  }

  /**
   * The best adapter becomes the one that is kept; a training that had ended is resumed with that
   * one in place.
   */
  promoteBest(): void {
    if (existsSync(this.best)) renameSync(this.best, this.out);
  }

  forgetBest(): void {
    rmSync(this.best, { force: true });
  }
}
