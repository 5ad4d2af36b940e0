import type { DownloadProgress } from '../engine/download.js';
import { visible } from '../visible-text.js';
import { columnsOf } from '../text/terminal-style.js';
import { formatBytes, formatDuration, formatNumber } from './quantities.js';

/**
 * One line of progress on stderr, never on stdout. On a terminal it is redrawn in place; elsewhere
 * (a pipe, CI) a plain line appears at most every few seconds and jobs shorter than that stay
 * silent. There are no timers and no terminal modes, so that nothing keeps the process alive and a
 * crash leaves the terminal as it was.
 */
export interface ProgressOptions {
  /** Name of the work, e.g. `download qwen2.5-0.5b`. */
  label: string;
  /** Amount of work; leave it out while it is unknown and pass it to `update` later. */
  total?: number;
  /** `bytes` prints sizes; any other word is printed after the numbers (`problems`, `tokens`). */
  unit: string;
  stream?: ProgressStream;
  /** Milliseconds; tests pass their own clock. */
  now?: () => number;
}

/** The part of process.stderr that is used. */
export interface ProgressStream {
  write(text: string): unknown;
  isTTY?: boolean | undefined;
  columns?: number | undefined;
}

/**
 * Columns that stay free: what a terminal echoes of Ctrl-C, and the cursor. On a further line it
 * would outlive this one.
 */
const ECHO = 3;
const REDRAW_MS = 100;
const PLAIN_LINE_MS = 5000;
/** The rate, and the remaining time with it, follows this much of the past. */
const RATE_WINDOW_MS = 15_000;

export class Progress {
  readonly #label: string;
  readonly #unit: string;
  readonly #stream: ProgressStream;
  readonly #redraws: boolean;
  readonly #now: () => number;
  readonly #start: number;
  readonly #samples: { at: number; done: number }[] = [];
  #total: number | undefined;
  #done = 0;
  #first: number | undefined;
  #note = '';
  #lastShown: number;
  #shown = false;
  #finished = false;

  constructor(options: ProgressOptions) {
    this.#label = visible(options.label);
    this.#unit = options.unit;
    this.#total = options.total;
    this.#stream = options.stream ?? process.stderr;
    this.#redraws = this.#stream.isTTY === true && process.env.TERM !== 'dumb';
    this.#now = options.now ?? (() => performance.now());
    this.#start = this.#now();
    this.#lastShown = this.#redraws ? -Infinity : this.#start;
  }

  /** Creates the progress line of a model download. */
  static ofDownload(model: string): Progress {
    return new Progress({ label: `download ${model}`, unit: 'bytes' });
  }

  readonly onDownload = ({ downloadedBytes, totalBytes }: DownloadProgress): void =>
    this.update(downloadedBytes, totalBytes === null ? {} : { total: totalBytes });

  /** Shows the label and a note at once on a terminal, before there is an amount. */
  begin(note: string): void {
    if (!this.#redraws || this.#finished) return;
    const columns = columnsOf(this.#stream) - ECHO;
    const text = `${this.#label}  ${visible(note)}`;
    this.#stream.write(
      `\r${text.length <= columns ? text : `${text.slice(0, columns - 1)}…`}\x1b[K`,
    );
    this.#shown = true;
  }

  /**
   * Work done so far (not since the last call). `note` is shown at the end of the line until
   * another replaces it.
   */
  update(done: number, more: { total?: number; note?: string } = {}): void {
    if (this.#finished) return;
    this.#done = done;
    this.#first ??= done;
    if (more.total !== undefined) this.#total = more.total;
    if (more.note !== undefined) this.#note = visible(more.note);
    const now = this.#now();
    if (now - this.#lastShown < (this.#redraws ? REDRAW_MS : PLAIN_LINE_MS)) return;
    this.#show(now);
  }

  /** Takes the line away so that other text can be printed; the next update draws it again. */
  clear(): void {
    if (this.#redraws && this.#shown) this.#stream.write('\r\x1b[K');
    if (this.#redraws) this.#shown = false;
    this.#lastShown = this.#redraws ? -Infinity : this.#lastShown;
  }

  /**
   * Shows the final state once and leaves it standing. Calling it twice, or not at all after an
   * error, is harmless.
   */
  finish(): void {
    if (this.#finished) return;
    this.#finished = true;
    const now = this.#now();
    if (this.#redraws) {
      this.#stream.write(`\r\x1b[K${this.#line(now, true)}\n`);
    } else if (this.#shown || now - this.#start >= PLAIN_LINE_MS) {
      this.#stream.write(`${this.#line(now, true)}\n`);
    }
  }

  /** Removes a half-drawn line, for `using` and after failures. */
  [Symbol.dispose](): void {
    if (this.#finished) return;
    this.#finished = true;
    this.clear();
  }

  #show(now: number): void {
    this.#lastShown = now;
    this.#shown = true;
    this.#samples.push({ at: now, done: this.#done });
    while (this.#samples.length > 2 && now - this.#samples[0]!.at > RATE_WINDOW_MS)
      this.#samples.shift();
    this.#stream.write(
      this.#redraws ? `\r${this.#line(now, false)}\x1b[K` : `${this.#line(now, false)}\n`,
    );
  }

  /**
   * Units a second: over the recent past while running, over the whole at the end. What was there
   * at the start is not counted.
   */
  #rate(now: number, final: boolean): number {
    const oldest = this.#samples[0];
    const since =
      final || oldest === undefined || oldest.at >= now
        ? { at: this.#start, done: this.#first ?? 0 }
        : oldest;
    return now > since.at ? (1000 * (this.#done - since.done)) / (now - since.at) : 0;
  }

  #line(now: number, final: boolean): string {
    const bytes = this.#unit === 'bytes';
    const amount = (value: number): string => (bytes ? formatBytes(value) : String(value));
    const rate = this.#rate(now, final);
    const of = this.#total !== undefined && this.#total > 0 ? this.#total : null;
    const part =
      of === null ? '' : `${String(Math.floor(100 * Math.min(1, this.#done / of))).padStart(3)} %`;
    const done = of === null ? amount(this.#done) : `${amount(this.#done)} of ${amount(of)}`;
    const pace = rate > 0 ? `${bytes ? formatBytes(rate) : formatNumber(rate)}/s` : '';
    const time = final
      ? `in ${formatDuration((now - this.#start) / 1000)}`
      : rate > 0 && this.#total !== undefined
        ? `ETA ${formatDuration((this.#total - this.#done) / rate)}`
        : '';
    const figuresOf = (parts: readonly string[]): string =>
      parts.filter((each) => each !== '').join('  ');
    const counted = bytes ? done : `${done} ${this.#unit}`;
    const all = figuresOf([part, counted, pace, time, this.#note]);
    if (!this.#redraws) return `${this.#label}  ${all}`;
    const columns = columnsOf(this.#stream) - ECHO;
    // Where there is little room the rate goes first, then the amounts: what is left is how far,
    // how long, and the note.
    const named = Math.min(this.#label.length, 12) + 2;
    const fewer = [
      all,
      figuresOf([part, counted, time, this.#note]),
      figuresOf([part === '' ? done : part, time, this.#note]),
    ];
    const figures = fewer.find((each) => named + each.length <= columns) ?? fewer.at(-1)!;
    // A long label, such as a URL, gives way to the figures; its end says more than its start.
    const room = Math.max(12, columns - figures.length - 2);
    const label = this.#label.length <= room ? this.#label : `..${this.#label.slice(2 - room)}`;
    const text = `${label}  ${figures}`;
    const bar = this.#bar(Math.min(24, columns - text.length - 3));
    return `${bar}${text}`.slice(0, columns);
  }

  #bar(width: number): string {
    if (this.#total === undefined || this.#total <= 0 || width < 6) return '';
    const full = Math.floor(width * Math.min(1, this.#done / this.#total));
    return `[${'#'.repeat(full)}${'-'.repeat(width - full)}] `;
  }
}
