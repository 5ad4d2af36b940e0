/**
 * MLflow's file store: an experiment's folder with meta.yaml, in it one a run with meta.yaml and a
 * file a metric, parameter and tag; a metric's lines are `milliseconds value step`, and `/` in its
 * name makes folders.
 */
import { hash } from 'node:crypto';
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import type { TrackedRun, Tracker } from './tracker.js';

const SCHEDULED = { running: 1, finished: 3, failed: 4 } as const;
/** Of a parameter. */
const LONGEST = 6000;

/** Members a line: JSON's strings, numbers, null and empty lists are YAML's. */
const yaml = (members: Readonly<Record<string, unknown>>): string =>
  Object.entries(members)
    .map(([name, value]) => `${name}: ${JSON.stringify(value)}\n`)
    .join('');

export function mlflowTracker(run: TrackedRun): Tracker {
  const { folder, project, name, id, config, resumed, now } = run;
  // digits, as MLflow names its own
  const experiment = String(BigInt(`0x${hash('sha256', project).slice(0, 14)}`));
  const [ofExperiment, ofRun] = [path.join(folder, experiment), path.join(folder, experiment, id)];
  const uri = (of: string): string => pathToFileURL(path.resolve(of)).href;
  if (!resumed) rmSync(ofRun, { recursive: true, force: true });
  for (const part of ['artifacts', 'metrics', 'params', 'tags'])
    mkdirSync(path.join(ofRun, part), { recursive: true });
  const created = path.join(ofExperiment, 'meta.yaml');
  if (!existsSync(created))
    writeFileSync(
      created,
      yaml({
        artifact_location: uri(ofExperiment),
        creation_time: now(),
        experiment_id: experiment,
        last_update_time: now(),
        lifecycle_stage: 'active',
        name: project,
      }),
    );
  const meta = path.join(ofRun, 'meta.yaml');
  const began = existsSync(meta)
    ? Number(/^start_time: (\d+)$/m.exec(readFileSync(meta, 'utf8'))?.[1] ?? now())
    : now();
  const write = (status: keyof typeof SCHEDULED): void =>
    writeFileSync(
      meta,
      yaml({
        artifact_uri: uri(path.join(ofRun, 'artifacts')),
        end_time: status === 'running' ? null : now(),
        entry_point_name: '',
        experiment_id: experiment,
        lifecycle_stage: 'active',
        run_id: id,
        run_name: name,
        run_uuid: id,
        source_name: '',
        source_type: 4,
        source_version: '',
        start_time: began,
        status: SCHEDULED[status],
        tags: [],
        user_id: '',
      }),
    );
  write('running');
  writeFileSync(path.join(ofRun, 'tags', 'mlflow.runName'), name);
  for (const [key, value] of Object.entries(config)) {
    const plain = typeof value === 'string' ? value : JSON.stringify(value);
    writeFileSync(path.join(ofRun, 'params', key), plain.slice(0, LONGEST));
  }
  return {
    log(step, metrics) {
      for (const [key, value] of Object.entries(metrics)) {
        const file = path.join(ofRun, 'metrics', key);
        mkdirSync(path.dirname(file), { recursive: true });
        appendFileSync(file, `${now()} ${value} ${step}\n`);
      }
    },
    end: write,
  };
}
