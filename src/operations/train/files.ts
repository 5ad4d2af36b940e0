/** Files of a training next to its adapter: state, losses, best adapter so far. */
import { appendFileSync, existsSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { z } from 'zod';
import { writeFileAtomically } from '../../engine/atomic-file.js';
import type { ValidationLoss } from '../../fine-tuning/fine-tuning.js';
import type { Trainer } from '../../engine/trainer.js';
import { IsoproError } from '../../errors.js';
import { readJson, requireTarget, unwritable } from '../../files.js';
import { WrongSettings } from '../wrong-settings.js';

const line = z.union([
  z.object({ step: z.int(), loss: z.number() }),
  z.object({ step: z.int(), validationLoss: z.number() }),
]);
type Line = z.output<typeof line>;

const setting = z.union([z.string(), z.number(), z.boolean(), z.null()]);
/** Settings that determine a training, by flag; null for a flag that is not set. */
export type BegunWith = Readonly<Record<string, z.output<typeof setting>>>;
export const DATA_HASH = 'data-hash';
/** Settings that a state names where they are set only, as the states of earlier versions. */
const NAMED_IF_SET = ['precision', 'adapter-from'];
/** Names of settings, as the caller of a training knows them. */
export interface SettingNames {
  readonly out: string;
  readonly data: string;
  readonly resume: string;
  readonly force: string;
  /** @param flag of a setting that a state is held to */
  readonly of: (flag: string) => string;
}
const FLAGS: SettingNames = {
  out: '--out',
  data: '--data',
  resume: '--resume',
  force: '--force',
  of: (flag) => `--${flag}`,
};
/** Renderer that produced the tokens of the rows. */
const RENDERER = 'renderer';
const END_OF_ANSWER = 'end-of-answer';
/** Tokens of a model, now and before the renderer was corrected; older states record neither. */
export interface RowTokens {
  readonly rendererId: string;
  readonly formerRendererId: string | null;
  readonly endOfAnswer: number;
  readonly formerEndOfAnswer: number;
}
const shown = (value: BegunWith[string]): string => (value === null ? 'not set' : String(value));

export interface Losses {
  readonly training: readonly { readonly step: number; readonly loss: number }[];
  readonly validation: readonly ValidationLoss[];
}

const linesOf = (file: string): Line[] =>
  readFileSync(file, 'utf8')
    .split('\n')
    .flatMap((text) => {
      try {
        const parsed = line.safeParse(JSON.parse(text));
        return parsed.success ? [parsed.data] : [];
      } catch {
        return []; // the last line of a process that was killed
      }
    });

const lossesOf = (lines: readonly Line[]): Losses => ({
  training: lines.flatMap((each) => ('loss' in each ? [each] : [])),
  validation: lines.flatMap((each) =>
    'loss' in each ? [] : [{ step: each.step, loss: each.validationLoss }],
  ),
});

/** Reads the losses that a training wrote. @throws an error of the file system */
export const readLosses = (file: string): Losses => lossesOf(linesOf(file));

export class TrainFiles {
  readonly out: string;
  readonly state: string;
  readonly best: string;
  /** A line a step, `{"step", "loss"}`, and one a measurement, `{"step", "validationLoss"}`. */
  readonly losses: string;
  readonly trackers: string;
  /** File of the base model's log-probabilities of preference pairs. */
  readonly references: string;
  /** File of the settings of the state. */
  readonly settings: string;
  /** True if state and losses are written, so that the training can be resumed. */
  readonly areKept: boolean;
  readonly #names: SettingNames;
  #lines: Line[] = [];
  #hasBest = false;

  constructor(out: string, areKept = true, names = FLAGS) {
    this.out = out;
    this.areKept = areKept;
    this.#names = names;
    this.state = `${out}.state`;
    this.settings = `${out}.state.json`;
    this.best = `${out}.best`;
    this.losses = `${out}.losses.jsonl`;
    this.references = `${out}.reference.json`;
    this.trackers = `${out}.trackers`;
  }

  /**
   * Checks the files before anything is computed.
   * @throws WrongSettings where something would be lost, or there is nothing to continue;
   *   IsoproError WRITE_FAILED
   */
  check({ resume, force }: { readonly resume: boolean; readonly force: boolean }): void {
    const names = this.#names;
    const hasState = this.areKept && existsSync(this.state);
    if (resume && !hasState)
      throw new WrongSettings(
        `${names.resume}: nothing was saved yet, there is no ${this.state}; start without ${names.resume}`,
      );
    if (!resume && !force) {
      if (existsSync(this.out))
        throw new WrongSettings(
          `${this.out} already exists: replace it with ${names.force}, or give another ${names.out}.`,
        );
      if (hasState)
        throw new WrongSettings(
          `${this.state} belongs to an interrupted training run: continue it with ${names.resume}, or restart with ${names.force}.`,
        );
    }
    for (const target of this.areKept ? [this.out, this.state, this.losses] : [this.out])
      requireTarget(target);
  }

  /**
   * Checks that a resumed training has the same settings; unknown settings pass.
   * @throws IsoproError INVALID_ARGUMENT naming what differs
   */
  checkSame(settings: BegunWith): void {
    const [names, before] = [this.#names, this.#begun()];
    if (before === undefined) return;
    const differing = Object.entries(settings).flatMap(([flag, value]) => {
      const was = before[flag] ?? null;
      if (was === value) return [];
      return flag === DATA_HASH
        ? [`different content in ${names.data} or in the split next to it`]
        : [`${names.of(flag)} ${shown(value)} instead of ${shown(was)}`];
    });
    if (differing.length === 0) return;
    throw new IsoproError(
      'INVALID_ARGUMENT',
      `${names.resume}: ${this.state} was started with other settings: now ${differing.join('; ')}`,
      {
        remedy: `Resume with the original settings and data, or restart with ${names.force} instead of ${names.resume}.`,
      },
    );
  }

  /** Settings of the state; undefined if they are unknown. */
  #begun(): BegunWith | undefined {
    if (!existsSync(this.settings)) return undefined;
    return z.record(z.string(), setting).safeParse(readJson(this.settings)).data;
  }

  /**
   * Checks that the rows of a resumed training have the same tokens.
   * @throws IsoproError INVALID_ARGUMENT
   */
  checkTokens({ rendererId, formerRendererId, endOfAnswer, formerEndOfAnswer }: RowTokens): void {
    const [names, before] = [this.#names, this.#begun()];
    const wasRendered = before?.[RENDERER] ?? formerRendererId ?? rendererId;
    const ended = before?.[END_OF_ANSWER] ?? formerEndOfAnswer;
    const differing = [
      ...(wasRendered === rendererId
        ? []
        : [
            "the renderer has since been corrected, and renders the model's chat template differently",
          ]),
      ...(ended === endOfAnswer
        ? []
        : [
            `an answer now ends with the token ${endOfAnswer}, as in rendered replies, instead of ${ended}`,
          ]),
    ];
    if (differing.length === 0) return;
    throw new IsoproError(
      'INVALID_ARGUMENT',
      `${names.resume}: ${this.state} was started by another version: ${differing.join('; ')}`,
      {
        remedy: `Restart with ${names.force} instead of ${names.resume}, or continue with the version of isopro-native that started it.`,
      },
    );
  }

  /**
   * Begins the losses, or keeps those of the steps that are not taken again.
   * @param steps that were taken
   */
  async open(
    steps: number,
    course: BegunWith,
    { rendererId, endOfAnswer }: RowTokens,
  ): Promise<void> {
    if (!this.areKept) return;
    const named = Object.entries(course).filter(
      ([flag, value]) => value !== null || !NAMED_IF_SET.includes(flag),
    );
    const settings = {
      ...Object.fromEntries(named),
      ...{ [RENDERER]: rendererId, [END_OF_ANSWER]: endOfAnswer },
    };
    if (steps === 0) rmSync(this.state, { force: true }); // of a training that this one replaces
    await writeFileAtomically(this.settings, [Buffer.from(`${JSON.stringify(settings)}\n`)]);
    this.#lines =
      steps === 0 || !existsSync(this.losses)
        ? []
        : linesOf(this.losses).filter(({ step }) => step <= steps);
    await writeFileAtomically(this.losses, [
      Buffer.from(this.#lines.map((each) => `${JSON.stringify(each)}\n`).join('')),
    ]);
  }

  add(entry: Line): void {
    this.#lines.push(entry);
    if (!this.areKept) return;
    try {
      appendFileSync(this.losses, `${JSON.stringify(entry)}\n`);
    } catch (cause) {
      throw unwritable(this.losses, cause);
    }
  }

  get all(): Losses {
    return lossesOf(this.#lines);
  }

  async save(trainer: Trainer): Promise<void> {
    if (this.areKept) await trainer.save(this.state);
  }

  async keepBest(trainer: Trainer): Promise<void> {
    this.#hasBest = true;
    await trainer.exportAdapter(this.best);
  }

  /**
   * The best adapter becomes the one that is kept; where a training that had ended is resumed, that
   * one is in place.
   */
  promoteBest(): void {
    if (existsSync(this.best)) renameSync(this.best, this.out);
  }

  /** Deletes the best adapter, unless it belongs to another training. */
  forgetBest(): void {
    if (this.areKept || this.#hasBest) rmSync(this.best, { force: true });
  }
}
