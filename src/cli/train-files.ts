/** What `train` keeps beside the adapter: its state, its losses, the best adapter so far. */
import { appendFileSync, existsSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { z } from 'zod';
import { writeFileAtomically } from '../engine/atomic-file.js';
import type { ValidationLoss } from '../engine/fine-tuning.js';
import { requireTarget, unwritable } from '../files.js';
import { UsageError } from './output.js';

const line = z.union([z.object({ step: z.int(), loss: z.number() }), z.object({ step: z.int(), validationLoss: z.number() })]);
type Line = z.output<typeof line>;

export class TrainFiles {
  readonly out: string;
  readonly state: string;
  readonly best: string;
  /** A line a step, `{"step", "loss"}`, and one a measurement, `{"step", "validationLoss"}`. */
  readonly losses: string;
  readonly trackers: string;
  /** What the base model says of preference pairs. */
  readonly references: string;
  #lines: Line[] = [];

  constructor(out: string) {
    this.out = out;
    this.state = `${out}.state`;
    this.best = `${out}.best`;
    this.losses = `${out}.losses.jsonl`;
    this.references = `${out}.reference.json`;
    this.trackers = `${out}.trackers`;
  }

  /**
   * Before anything is computed.
   * @throws UsageError where something would be lost, or there is nothing to go on from; IsoproError WRITE_FAILED
   */
  check({ resume, force }: { readonly resume: boolean; readonly force: boolean }): void {
    if (resume && force) throw new UsageError('--resume goes on and --force begins anew: give one of them.');
    if (resume && !existsSync(this.state)) throw new UsageError(`--resume: there is no ${this.state}`);
    if (!resume && !force) {
      if (existsSync(this.out)) throw new UsageError(`${this.out} is there already: --force replaces it, or give another --out.`);
      if (existsSync(this.state))
        throw new UsageError(`${this.state} is of a training that was interrupted: --resume goes on with it, --force begins anew.`);
    }
    for (const target of [this.out, this.state, this.losses]) requireTarget(target);
  }

  /** Begins the losses, or keeps those of the steps that are not taken again. @param steps that were taken */
  async open(steps: number): Promise<void> {
    this.#lines = steps === 0 || !existsSync(this.losses) ? [] : this.#read().filter(({ step }) => step <= steps);
    await writeFileAtomically(this.losses, [Buffer.from(this.#lines.map((each) => `${JSON.stringify(each)}\n`).join(''))]);
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
    return this.#lines.flatMap((each) => ('loss' in each ? [] : [{ step: each.step, loss: each.validationLoss }]));
  }

  /** The best adapter becomes the one that is kept; a training that had ended is resumed with that one in place. */
  promoteBest(): void {
    if (existsSync(this.best)) renameSync(this.best, this.out);
  }

  forgetBest(): void {
    rmSync(this.best, { force: true });
  }
}
