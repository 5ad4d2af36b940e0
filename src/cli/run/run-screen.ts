/**
 * Screen of a running run: a redrawn screen on a terminal, plain lines elsewhere. Always on stderr.
 */
import {
  columnsOf,
  length,
  type Paint,
  painted,
  screened,
  terminalStyle,
  wrapped,
} from '../../text/terminal-style.js';
import { leftOut, nothingAccepted, type HowAsked } from '../../text/failures.js';
import type { MonitorReport } from '../../training/monitor-session.js';
import type {
  BegunRun,
  IterationReport,
  RunHooks,
  RunProgress,
  Stage,
} from '../../training/hooks.js';
import type { Failures } from '../../tasks/failures.js';
import { howAsked } from '../../operations/asking.js';
import type { Told } from '../../operations/operation.js';
import type { ProgressStream } from '../progress.js';
import { formatBytes, formatDuration, formatNumber } from '../quantities.js';
import { TimeLeft } from './time-estimate.js';
import { plannedWork, type PlannedWork } from '../../operations/planned-work.js';

const REDRAW_MS = 200;
/** Interval of lines without a terminal, in milliseconds. */
const PLAIN_MS = 30_000;
/** The clock on the screen goes on while nothing is reported. */
const TICK_MS = 1000;
/** Lines for hit rates by tier. */
const TIER_LINES = 4;

const TITLES: Readonly<Record<Stage, string>> = {
  load: 'loading',
  before: 'test set, before',
  rollouts: 'rollouts',
  layers: 'choosing layers',
  training: 'training',
  dev: 'dev set',
  restraint: 'forgetting, against the limit',
  after: 'test set, after',
  forgetting: 'forgetting',
  close: 'signing',
};
const UNITS: Readonly<Partial<Record<Stage, string>>> = {
  before: 'problems',
  rollouts: 'samples',
  training: 'steps',
  dev: 'problems',
  restraint: 'texts',
  forgetting: 'texts',
  after: 'problems',
};

export interface ScreenOptions {
  readonly title: string;
  /** Planned work, for the time left before the first iteration. */
  readonly planned?: PlannedWork;
  readonly stream?: ProgressStream;
  /** Milliseconds; tests pass their own clock. */
  readonly now?: () => number;
  /** Milliseconds between redrawings while nothing is reported; 0: none. */
  readonly tick?: number;
}

/** Joins parts into lines that fit the terminal; a part that is longer than a line is cut. */
function flowed(lead: string, parts: readonly string[], columns: number, gap = '   '): string[] {
  const lines: string[] = [];
  for (const part of parts) {
    const line = lines.at(-1);
    if (line !== undefined && length(line) + gap.length + length(part) <= columns)
      lines[lines.length - 1] = `${line}${line.trim() === '' ? '' : gap}${part}`;
    else lines.push(`${lines.length === 0 ? lead : ' '.repeat(lead.length)}${part}`);
  }
  return lines.map((line) =>
    length(line) <= columns ? line : `${[...line].slice(0, columns - 1).join('')}…`,
  );
}

const percent = (fraction: number | null | undefined): string =>
  fraction === null || fraction === undefined ? '-' : `${(100 * fraction).toFixed(1)} %`;

/** True once all samples are there: the next report comes after a step, maybe minutes later. */
const isSampled = ({ stage, done, total }: RunProgress): boolean =>
  stage === 'rollouts' && total > 0 && done === total;

export class RunScreen implements RunHooks {
  readonly #title: string;
  #asked: HowAsked | null = null;
  readonly #stream: ProgressStream;
  readonly #redraws: boolean;
  readonly #now: () => number;
  #start: number;
  readonly #time: TimeLeft;
  #timer: NodeJS.Timeout | undefined;
  #ended = false;
  #fetched = { done: 0, total: 0, text: '' };
  #methodLines: string[] | null = null;
  #stageStart: number;
  #lastShown = -Infinity;
  #lines = 0;
  #progress: RunProgress | undefined;
  #latest: IterationReport | undefined;
  #trainingRate = 0;
  #samplingRate = 0;
  #rules: string[] = [];
  #method: string | undefined;

  constructor({
    title,
    planned,
    stream = process.stderr,
    now = () => performance.now(),
    tick = TICK_MS,
  }: ScreenOptions) {
    this.#title = title;
    this.#time = new TimeLeft(planned);
    this.#stream = stream;
    this.#redraws = stream.isTTY === true && process.env.TERM !== 'dumb';
    this.#now = now;
    this.#start = this.#stageStart = now();
    if (!this.#redraws) return;
    this.#draw(this.#screen(this.#start));
    if (tick > 0) this.#timer = setInterval(() => this.#redraw(), tick).unref();
  }

  /** While the model is fetched, before the run begins. */
  readonly onDownload = ({
    downloadedBytes,
    totalBytes,
  }: {
    downloadedBytes: number;
    totalBytes: number | null;
  }): void => {
    const of = totalBytes === null ? '' : ` of ${formatBytes(totalBytes)}`;
    this.#fetched = {
      done: downloadedBytes,
      total: totalBytes ?? 0,
      text: `fetched ${formatBytes(downloadedBytes)}${of}`,
    };
    const now = this.#now();
    if (now - this.#lastShown < (this.#redraws ? REDRAW_MS : PLAIN_MS)) return;
    this.#lastShown = now;
    if (this.#redraws) this.#draw(this.#screen(now));
    else this.#print(`${this.#clock(now)}  ${this.#fetched.text}`);
  };

  readonly onBegin = ({ settings, resumedFrom, spentSeconds }: BegunRun): void => {
    this.#asked = howAsked(settings);
    this.#time.plan(plannedWork(settings));
    if (resumedFrom !== null) this.#start -= 1000 * spentSeconds; // the clock is the run's
  };

  readonly onProgress = (progress: RunProgress): void => {
    const now = this.#now();
    const before = this.#progress;
    if (before?.stage !== progress.stage || before.iteration !== progress.iteration) {
      this.#stageStart = now;
      this.#lastShown = this.#redraws ? -Infinity : now;
      if (!this.#redraws && progress.stage !== 'layers')
        this.#print(`${this.#clock(now)}  ${this.#heading(progress)}`);
    }
    this.#progress = progress;
    this.#time.take(progress, now);
    const seconds = (now - this.#stageStart) / 1000;
    if (seconds > 0.5) {
      if (progress.stage === 'training') this.#trainingRate = progress.tokens / seconds;
      else if (progress.tokens > 0) this.#samplingRate = progress.tokens / seconds;
    }
    if (!isSampled(progress) && now - this.#lastShown < (this.#redraws ? REDRAW_MS : PLAIN_MS))
      return;
    this.#lastShown = now;
    if (this.#redraws) this.#draw(this.#screen(now));
    else
      this.#print(
        `${this.#clock(now)}    ${this.#amount(progress)}, ${this.#rates().join(', ')}${this.#left(now, ', ')}`,
      );
  };

  readonly onIteration = (report: IterationReport, failures: Failures): void => {
    this.#latest = report;
    const { iteration, hitRate, refused, steps, loss, dev, gate, rulesFired } = report;
    const admitted = Object.values(report.rollouts).reduce((sum, tier) => sum + tier.admitted, 0);
    const line =
      `iteration ${iteration}: hit rate ${percent(hitRate)}, ${admitted} to train on${leftOut(refused)}, ${steps} ` +
      `steps${loss === null ? '' : `, loss ${loss.toFixed(3)}`}, dev ${percent(dev.mean)}` +
      `${gate?.rolledBack === true ? ', rolled back' : ''}${rulesFired.length > 0 ? `, rules ${rulesFired.join(' ')}` : ''}`;
    this.say(line, gate?.rolledBack === true ? 'fair' : null);
    // hours of the same would follow otherwise before the end says it
    if (failures.passed === 0 && this.#asked !== null)
      this.say(nothingAccepted(failures, {}, this.#asked), 'fair');
  };

  readonly onNotice = (text: string): void => {
    this.say(text, 'fair');
  };

  readonly onRule = ({ decisions, effects }: MonitorReport): void => {
    this.#rules = decisions.map(({ cites: [rule], edit, remedy_direction: direction }) => {
      const failed = effects.some((effect) => effect.rule === rule && !effect.executed);
      return `${rule} ${edit.length === 0 ? 'deferred' : `${direction}${failed ? ' (failed)' : ''}`}`;
    });
  };

  readonly onMethod = (
    method: string,
    {
      finished,
      total,
      sampledTokens,
    }: { readonly finished: number; readonly total: number; readonly sampledTokens: number },
  ): void => {
    const now = this.#now();
    if (method !== this.#method) {
      this.#method = method;
      this.#stageStart = this.#lastShown = now;
      if (!this.#redraws) this.#print(`${this.#clock(now)}  ${method}, ${total} answers`);
    }
    if (now - this.#lastShown < (this.#redraws ? REDRAW_MS : PLAIN_MS)) return;
    this.#lastShown = now;
    this.#samplingRate = sampledTokens / Math.max(0.001, (now - this.#stageStart) / 1000);
    const line = `${method}: ${finished} of ${total} answers, ${this.#rates().join(', ')}`;
    if (this.#redraws) {
      this.#methodLines = flowed('', line.split(/(?<=,) /), this.#columns(), ' ');
      this.#draw([...this.#head(now, ''), ...this.#methodLines]);
    } else this.#print(`${this.#clock(now)}    ${line}`);
  };

  /** Receives the events of an operation. */
  readonly tell = ({ type, data }: Told): void => {
    if (type === 'begin') this.onBegin(data as BegunRun);
    if (type === 'progress') this.#told(data as RunProgress);
    if (type === 'iteration') {
      const { failures, ...report } = data as IterationReport & { readonly failures: Failures };
      this.onIteration(report, failures);
    }
    if (type === 'rule') this.onRule(data as MonitorReport);
    if (type === 'notice') this.onNotice((data as { readonly text: string }).text);
  };

  #told(progress: Omit<RunProgress, 'stage'> & { readonly stage: string }): void {
    const { stage, done, total, tokens } = progress;
    if (stage in TITLES) this.onProgress(progress as RunProgress);
    else if (stage === 'download')
      this.onDownload({ downloadedBytes: done, totalBytes: total === 0 ? null : total });
    else this.onMethod(stage, { finished: done, total, sampledTokens: tokens });
  }

  /** Prints a line for good. */
  say(line: string, paint: Paint | null = null): void {
    this.clear();
    const style = terminalStyle(this.#stream);
    this.#print(painted(wrapped(`${this.#clock(this.#now())}  ${line}`, style, 2), paint, style));
  }

  /**
   * Takes the screen away; lines that were printed for good stay, and so does what the terminal
   * echoed of Ctrl-C nowhere.
   */
  clear(): void {
    if (this.#lines > 0) this.#stream.write(`\r\x1b[${this.#lines}A\x1b[J`);
    this.#lines = 0;
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
    this.clear();
    this.#ended = true;
  }

  #columns(): number {
    return columnsOf(this.#stream) - 1;
  }

  #redraw(): void {
    const now = this.#now();
    this.#draw(
      this.#methodLines === null
        ? this.#screen(now)
        : [...this.#head(now, ''), ...this.#methodLines],
    );
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

  #amount(progress: RunProgress): string {
    const { stage, done, total } = progress;
    if (total === 0) return TITLES[stage];
    return `${done} of ${total} ${UNITS[stage] ?? ''}${isSampled(progress) ? '; first step running' : ''}`;
  }

  #rates(): string[] {
    return [
      ...(this.#samplingRate > 0 ? [`sampling ${formatNumber(this.#samplingRate)} tokens/s`] : []),
      ...(this.#trainingRate > 0 ? [`training ${formatNumber(this.#trainingRate)} tokens/s`] : []),
      `${formatBytes(process.memoryUsage.rss())} resident`,
    ];
  }

  #left(now: number, before: string): string {
    const left = this.#time.left(now);
    return left === null ? '' : `${before}about ${formatDuration(left)} left`;
  }

  /** What, and how long; the title gives way to the rest. */
  #head(now: number, heading: string): string[] {
    const left = this.#left(now, ', ') || (heading === '' ? '' : ', time left unknown');
    const parts = [...(heading === '' ? [] : [heading]), `${this.#clock(now).trim()}${left}`];
    const room = this.#columns() - length(parts.join('   ')) - 3;
    if (room < 12) return flowed('', parts, this.#columns());
    const title =
      length(this.#title) <= room ? this.#title : `..${[...this.#title].slice(2 - room).join('')}`;
    return [[title, ...parts].join('   ')];
  }

  #bar(done: number, total: number, text: string): string {
    const width = Math.max(4, Math.min(30, this.#columns() - length(text) - 3));
    const full = total > 0 ? Math.round((width * Math.min(done, total)) / total) : 0;
    return `[${painted('#'.repeat(full), 'good', terminalStyle(this.#stream))}${'-'.repeat(width - full)}] ${text}`.trimEnd();
  }

  #screen(now: number): string[] {
    const columns = this.#columns();
    const progress = this.#progress;
    if (progress === undefined || progress.stage === 'load') {
      const { done, total, text } = this.#fetched;
      return [...this.#head(now, TITLES.load), this.#bar(done, total, text)];
    }
    const { stage, done, total, hits, loss } = progress;
    const tiers = Object.entries(hits).map(
      ([tier, { passed, decided }]) => `${tier} ${passed}/${decided}`,
    );
    const shown = flowed('hits  ', tiers, columns);
    const hidden = shown.length - TIER_LINES;
    const shownLoss = loss ?? this.#latest?.loss ?? null;
    return [
      ...this.#head(now, this.#heading({ ...progress, total: 0 })),
      this.#bar(done, total, this.#amount(progress)),
      ...(stage !== 'rollouts' || tiers.length === 0
        ? []
        : hidden <= 0
          ? shown
          : [...shown.slice(0, TIER_LINES - 1), '      …']),
      ...flowed(
        '',
        [
          `loss ${shownLoss === null ? '-' : shownLoss.toFixed(3)}`,
          `dev ${percent(this.#latest?.dev.mean)}`,
          ...this.#rates(),
        ],
        columns,
      ),
      ...(this.#rules.length > 0 ? flowed('rules  ', this.#rules, columns) : []).map((line) =>
        painted(line, 'fair', terminalStyle(this.#stream)),
      ),
    ];
  }

  #print(line: string): void {
    this.#stream.write(`${screened(line, terminalStyle(this.#stream))}\n`);
  }

  #draw(lines: readonly string[]): void {
    if (this.#ended) return;
    const style = terminalStyle(this.#stream);
    const text = lines
      .map((line) => `${screened(line, style).replace(/\s/g, ' ')}\x1b[K\n`)
      .join('');
    this.#stream.write(`${this.#lines > 0 ? `\r\x1b[${this.#lines}A` : ''}${text}\x1b[J`);
    this.#lines = lines.length;
  }
}
