/**
 * What a kind of job is: its settings, and the command line that they come to. One file a kind, and
 * its place in the list of index.ts.
 */
import type { z } from 'zod';
import type { EventType } from '../job.js';
import type { Work } from '../worker.js';
import type { Names } from '../../operations/names.js';

export interface Place {
  readonly names: Names;
  /** Of the job that is to be. */
  readonly id: string;
  /** Files of the job that are no run, a folder of its own. */
  readonly folder: string;
}

export interface Prepared {
  /** Of the command line, without --json. */
  readonly args: readonly string[];
  /** What a process of ours is given; absent: the command line. */
  readonly work?: Work;
  /** Name of what it makes below the runs folder; null: nothing. */
  readonly run: string | null;
  readonly memoryBytes: number;
  /** With what follows from the model and from defaults, for whoever wants to see them. */
  readonly resolved: unknown;
}

export interface JobKind<Settings = unknown> {
  readonly id: string;
  readonly title: string;
  /** Its name on a button of the page. */
  readonly button?: string;
  readonly settings: z.ZodType<Settings>;
  /** What a page shows of them, where the schema reads less; default: the schema. */
  readonly described?: z.ZodType;
  /**
   * @param settings as the schema has read them
   * @throws NotAllowed; IsoproError INVALID_ARGUMENT where settings contradict each other
   */
  prepare(settings: Settings, place: Place): Promise<Prepared>;
  /** Flags beside when the job is begun again, by what lies on the disk. */
  again?(place: Pick<Place, 'id' | 'folder'>): readonly string[];
  /** As `settings` reads them; what it gives goes into `prepare`. */
  read?(given: unknown): unknown;
  /** Settings besides, when it starts again and when it is measured. */
  againWith?(place: Place): object;
  readonly measureWith?: object;
  /** Whether only who may all may ask for it: it changes what is everybody's. */
  readonly isForAdmin?: boolean;
  /** Exit codes beside 0 after which there is a result. */
  readonly isResult?: (exitCode: number) => boolean;
  /** Its output is lines, each but the last an event of this type. */
  readonly lines?: EventType;
  /**
   * Flags with which the command tries the work for some seconds and says what it would cost;
   * absent: it cannot.
   */
  readonly measure?: readonly string[];
  /** The adapter that it made, of a result: its file. */
  adapterOf?(result: unknown): string | null;
}

/** A kind whose prepare sees what its schema reads. */
export const jobKind = <Schema extends z.ZodType>(
  kind: Omit<JobKind<z.output<Schema>>, 'settings'> & { readonly settings: Schema },
): JobKind => kind as unknown as JobKind;

/** `--flag=value` for what is stated; a list as often as it has members. */
export const flags = (stated: Readonly<Record<string, unknown>>): string[] =>
  Object.entries(stated).flatMap(([name, value]) => {
    if (value === undefined) return [];
    const flag = `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
    if (typeof value === 'boolean') return [value ? flag : `--no-${flag.slice(2)}`];
    return (Array.isArray(value) ? value : [value]).map((each) => `${flag}=${String(each)}`);
  });
