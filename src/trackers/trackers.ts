/**
 * All trackers of a training together. None of them can end it: one that fails reports it once and
 * receives no more metrics.
 */
import { hash } from 'node:crypto';
import { appendFileSync, mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { mlflowTracker } from './mlflow.js';
import { tensorboardTracker } from './tensorboard.js';
import { trackioTracker } from './trackio.js';
import type { TrackedRun, Tracker } from './tracker.js';
import { wandbTracker } from './wandb.js';

/** One line of JSON a call: {"step": 1, "train/loss": 2.5, …}. */
function jsonlTracker({ folder, resumed }: TrackedRun): Tracker {
  mkdirSync(folder, { recursive: true });
  const file = path.join(folder, 'metrics.jsonl');
  if (!resumed) writeFileSync(file, '');
  return {
    log: (step, metrics) => appendFileSync(file, `${JSON.stringify({ step, ...metrics })}\n`),
    end: () => undefined,
  };
}

interface Kind {
  readonly open: (run: TrackedRun) => Tracker;
  /** The command that shows what lies in a folder. */
  readonly show: (folder: string) => string;
}

const KINDS = {
  trackio: { open: trackioTracker, show: (folder) => `TRACKIO_DIR=${folder} trackio show` },
  wandb: {
    open: wandbTracker,
    show: (folder) => `wandb sync ${path.join(folder, 'offline-run-*')}`,
  },
  tensorboard: { open: tensorboardTracker, show: (folder) => `tensorboard --logdir ${folder}` },
  mlflow: {
    open: mlflowTracker,
    show: (folder) => `MLFLOW_ALLOW_FILE_STORE=true mlflow ui --backend-store-uri ${folder}`,
  },
  jsonl: { open: jsonlTracker, show: (folder) => `tail -f ${path.join(folder, 'metrics.jsonl')}` },
} as const satisfies Record<string, Kind>;

export type TrackerName = keyof typeof KINDS;
export const TRACKER_NAMES = Object.keys(KINDS) as TrackerName[];

export interface TrackersOptions
  extends Pick<TrackedRun, 'folder' | 'project' | 'name' | 'config' | 'resumed'> {
  readonly onNotice: (text: string) => void;
  readonly now?: () => number;
}

export class Trackers {
  readonly #open = new Map<TrackerName, Tracker>();
  readonly #onNotice: (text: string) => void;
  /** One command per tracker that shows what it has written. */
  readonly commands: readonly string[];

  constructor(
    names: readonly TrackerName[],
    { onNotice, now = Date.now, ...run }: TrackersOptions,
  ) {
    this.#onNotice = onNotice;
    const id = hash('sha256', JSON.stringify([run.project, run.name])).slice(0, 32);
    const folderOf = (name: TrackerName): string => path.join(run.folder, name);
    const chosen = [...new Set(names)];
    for (const name of chosen)
      this.#attempt(name, () =>
        this.#open.set(name, KINDS[name].open({ ...run, folder: folderOf(name), id, now })),
      );
    this.commands = chosen
      .filter((name) => this.#open.has(name))
      .map((name) => KINDS[name].show(folderOf(name)));
  }

  /** Logs the finite metrics of a step; others are omitted. */
  log(step: number, metrics: Readonly<Record<string, number | null | undefined>>): void {
    const finite = Object.fromEntries(
      Object.entries(metrics).filter((entry): entry is [string, number] =>
        Number.isFinite(entry[1]),
      ),
    );
    for (const [name, tracker] of this.#open) this.#attempt(name, () => tracker.log(step, finite));
  }

  /** Ends the trackers; the last call. */
  end(status: 'finished' | 'failed'): void {
    for (const [name, tracker] of this.#open) this.#attempt(name, () => tracker.end(status));
    this.#open.clear();
  }

  #attempt(name: TrackerName, work: () => void): void {
    try {
      work();
    } catch (error) {
      this.#open.delete(name);
      this.#onNotice(`logging to ${name} stopped: ${(error as Error).message}`);
    }
  }
}
