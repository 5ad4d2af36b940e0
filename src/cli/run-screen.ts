/** What a person sees of a run while it goes on: one screen on a terminal, plain lines elsewhere. Always on stderr. */
import type { MonitorReport } from '../training/monitor-session.js';
import type { IterationReport, RunHooks, RunProgress, Stage } from '../training/hooks.js';
import type { ProgressStream } from './progress.js';
import { formatBytes, formatDuration, formatNumber } from './quantities.js';

const REDRAW_MS = 200;
/** Without a terminal a long stage still shows signs of life. */
const PLAIN_MS = 30_000;

const TITLES: Readonly<Record<Stage, string>> = {
  load: 'loading',
  before: 'test set, before',
  rollouts: 'rollouts',
  layers: 'choosing layers',
  training: 'training',
  dev: 'dev set',
  after: 'test set, after',
  forgetting: 'what was forgotten',
  close: 'signing',
};
const UNITS: Readonly<Partial<Record<Stage, string>>> = {
  before: 'problems',
  rollouts: 'samples',
  training: 'steps',
  dev: 'problems',
  forgetting: 'texts',
  after: 'problems',
};

export interface ScreenOptions {
  readonly title: string;
  readonly stream?: ProgressStream;
  /** Milliseconds; tests pass their own clock. */
  readonly now?: () => number;
}

const percent = (fraction: number | null | undefined): string =>
  fraction === null || fraction === undefined ? '-' : `${(100 * fraction).toFixed(1)} %`;

export class RunScreen implements RunHooks {
  readonly #title: string;
  readonly #stream: ProgressStream;
  readonly #redraws: boolean;
  readonly #now: () => number;
  readonly #start: number;
  #stageStart: number;
  #lastShown = -Infinity;
  #lines = 0;
  #progress: RunProgress | undefined;
  #beforeSeconds = 0;
  #iterationStart = 0;
  #iterationSeconds: number[] = [];
  #latest: IterationReport | undefined;
  #trainingRate = 0;
  #samplingRate = 0;
  #rules: string[] = [];
  #method: string | undefined;

  constructor({ title, stream = process.stderr, now = () => performance.now() }: ScreenOptions) {
    this.#title = title;
    this.#stream = stream;
    this.#redraws = stream.isTTY === true && process.env.TERM !== 'dumb';
    this.#now = now;
    this.#start = this.#stageStart = now();
  }

  readonly onProgress = (progress: RunProgress): void => {
    const now = this.#now();
    const before = this.#progress;
    if (before?.stage !== progress.stage || before.iteration !== progress.iteration) {
      if (before?.stage === 'before') this.#beforeSeconds = (now - this.#stageStart) / 1000;
      if (progress.stage === 'rollouts') this.#iterationStart = now;
      this.#stageStart = this.#lastShown = now;
      if (!this.#redraws && progress.stage !== 'layers') this.#stream.write(`${this.#clock(now)}  ${this.#heading(progress)}\n`);
    }
    this.#progress = progress;
    const seconds = (now - this.#stageStart) / 1000;
    if (seconds > 0.5) {
      if (progress.stage === 'training') this.#trainingRate = progress.tokens / seconds;
      else if (progress.tokens > 0) this.#samplingRate = progress.tokens / seconds;
    }
    if (now - this.#lastShown < (this.#redraws ? REDRAW_MS : PLAIN_MS)) return;
    this.#lastShown = now;
    if (this.#redraws) this.#draw(this.#screen(now));
    else this.#stream.write(`${this.#clock(now)}    ${this.#amount(progress)}, ${this.#rates()}\n`);
  };

  readonly onIteration = (report: IterationReport): void => {
    const now = this.#now();
    this.#iterationSeconds.push((now - this.#iterationStart) / 1000);
    this.#latest = report;
    const { iteration, hitRate, steps, loss, dev, gate, rulesFired } = report;
    const admitted = Object.values(report.rollouts).reduce((sum, tier) => sum + tier.admitted, 0);
    const line =
      `iteration ${iteration}: hit rate ${percent(hitRate)}, ${admitted} to train on, ${steps} ` +
      `steps${loss === null ? '' : `, loss ${loss.toFixed(3)}`}, dev ${percent(dev.mean)}` +
      `${gate?.rolledBack === true ? ', rolled back' : ''}${rulesFired.length > 0 ? `, rules ${rulesFired.join(' ')}` : ''}`;
    this.say(line);
  };

  readonly onNotice = (text: string): void => this.say(text);

  readonly onRule = ({ decisions, effects }: MonitorReport): void => {
    this.#rules = decisions.map(({ cites: [rule], edit, remedy_direction: direction }) => {
      const failed = effects.some((effect) => effect.rule === rule && !effect.executed);
      return `${rule} ${edit.length === 0 ? 'deferred' : `${direction}${failed ? ' (failed)' : ''}`}`;
    });
  };

  readonly onMethod = (
    method: string,
    { finished, total, sampledTokens }: { readonly finished: number; readonly total: number; readonly sampledTokens: number },
  ): void => {
    const now = this.#now();
    if (method !== this.#method) {
      this.#method = method;
      this.#stageStart = this.#lastShown = now;
      if (!this.#redraws) this.#stream.write(`${this.#clock(now)}  ${method}, ${total} answers\n`);
    }
    if (now - this.#lastShown < (this.#redraws ? REDRAW_MS : PLAIN_MS)) return;
    this.#lastShown = now;
    this.#samplingRate = sampledTokens / Math.max(0.001, (now - this.#stageStart) / 1000);
    const line = `${method}: ${finished} of ${total} answers, ${this.#rates()}`;
    if (this.#redraws) this.#draw([`${this.#title}   ${this.#clock(now).trim()}`, line]);
    else this.#stream.write(`${this.#clock(now)}    ${line}\n`);
  };

  /** Prints a line for good. */
  say(line: string): void {
    this.clear();
    this.#stream.write(`${this.#clock(this.#now())}  ${line}\n`);
  }

  /** Takes the screen away; lines that were printed for good stay. */
  clear(): void {
    if (this.#lines > 0) this.#stream.write(`\x1b[${this.#lines}A\x1b[J`);
    this.#lines = 0;
  }

  [Symbol.dispose](): void {
    this.clear();
  }

  #clock(now: number): string {
    return formatDuration((now - this.#start) / 1000).padStart(7);
  }

  #heading({ stage, iteration, iterations, total }: RunProgress): string {
    const of =
      stage === 'rollouts' || stage === 'training' || stage === 'dev'
        ? iteration > 0
          ? `iteration ${iteration} of ${iterations}: `
          : ''
        : '';
    return `${of}${TITLES[stage]}${total > 0 && UNITS[stage] !== undefined ? `, ${total} ${UNITS[stage]}` : ''}`;
  }

  #amount({ stage, done, total }: RunProgress): string {
    return total > 0 ? `${done} of ${total} ${UNITS[stage] ?? ''}` : TITLES[stage];
  }

  #rates(): string {
    const parts: string[] = [];
    if (this.#samplingRate > 0) parts.push(`sampling ${formatNumber(this.#samplingRate)} tokens/s`);
    if (this.#trainingRate > 0) parts.push(`training ${formatNumber(this.#trainingRate)} tokens/s`);
    parts.push(`${formatBytes(process.memoryUsage.rss())} resident`);
    return parts.join(', ');
  }

  /** Seconds, from the iterations so far; null before the first is done. */
  #remaining(now: number, { stage, iteration, iterations }: RunProgress): number | null {
    if (this.#iterationSeconds.length === 0 || stage === 'after' || stage === 'forgetting' || stage === 'close') return null;
    const mean = this.#iterationSeconds.reduce((sum, each) => sum + each, 0) / this.#iterationSeconds.length;
    const current = Math.max(0, mean - (now - this.#iterationStart) / 1000);
    return current + (iterations - iteration) * mean + this.#beforeSeconds;
  }

  #screen(now: number): string[] {
    const progress = this.#progress!;
    const { stage, done, total, hits, loss } = progress;
    const left = this.#remaining(now, progress);
    const width = 30;
    const full = total > 0 ? Math.round((width * Math.min(done, total)) / total) : 0;
    const tiers = Object.entries(hits).map(([tier, { passed, decided }]) => `${tier} ${passed}/${decided}`);
    const shownLoss = loss ?? this.#latest?.loss ?? null;
    return [
      `${this.#title}   ${this.#heading({ ...progress, total: 0 })}   ` +
        `${this.#clock(now).trim()}${left === null ? '' : `, about ${formatDuration(left)} left`}`,
      `[${'#'.repeat(full)}${'-'.repeat(width - full)}] ${this.#amount(progress)}`,
      ...(stage === 'rollouts' && tiers.length > 0 ? [`hits  ${tiers.join('   ')}`] : []),
      `loss ${shownLoss === null ? '-' : shownLoss.toFixed(3)}   dev ${percent(this.#latest?.dev.mean)}   ${this.#rates()}`,
      ...(this.#rules.length > 0 ? [`rules  ${this.#rules.join(', ')}`] : []),
    ];
  }

  #draw(lines: readonly string[]): void {
    const columns = (this.#stream.columns ?? 80) - 1;
    const text = lines.map((line) => `${line.slice(0, columns)}\x1b[K\n`).join('');
    this.#stream.write(`${this.#lines > 0 ? `\x1b[${this.#lines}A` : ''}${text}\x1b[J`);
    this.#lines = lines.length;
  }
}
