/** Every command that takes a path, and everything that a path can be instead of what was meant. */
import { chmodSync, closeSync, mkdirSync, openSync, ftruncateSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { Random } from '../../src/random.js';

/** What stands where a file is to be read. */
export const INPUT_KINDS = [
  'missing',
  'folder',
  'device',
  'mark',
  'empty',
  'forbidden',
  'huge',
  'binary',
] as const;
/** What stands where a file is to be written. */
export const OUTPUT_KINDS = [
  'folder',
  'device',
  'full',
  'homeless',
  'below-a-file',
  'forbidden',
  'nowhere',
] as const;
export type Kind = (typeof INPUT_KINDS)[number] | (typeof OUTPUT_KINDS)[number];

export interface PathCase {
  /** Of the command, with the path in it. */
  readonly args: (broken: string) => readonly string[];
  readonly name: string;
  readonly side: 'input' | 'output';
}

/** Well-formed material that the rest of each command line is made of. */
export interface Sound {
  readonly model: string;
  readonly adapter: string;
  readonly task: string;
  readonly data: string;
  readonly run: string;
  /** A folder for what the commands write. */
  readonly scratch: string;
}

/** Flags of a run of a few seconds. */
export const SMALL_RUN = [
  '--iterations',
  '1',
  '--rollouts',
  '8',
  '--samples',
  '4',
  '--max-tokens',
  '2',
  '--steps-per-iteration',
  '1',
  '--batch-size',
  '2',
  '--rank',
  '1',
  '--top-layers',
  '1',
  '--dev-size',
  '1',
  '--test-size',
  '1',
  '--threads',
  '1',
  '--signer',
  'single-process',
];

/** One case for each command and flag that is a path. */
export function pathCases({ model, adapter, task, data, run, scratch }: Sound): PathCase[] {
  let made = 0;
  const out = (): string => path.join(scratch, `out-${++made}`);
  const cases: PathCase[] = [];
  const add = (
    command: readonly string[],
    given: Readonly<Record<string, () => readonly string[]>>,
    outputs: readonly string[] = [],
  ): void => {
    for (const flag of Object.keys(given)) {
      const rest = (): string[] =>
        Object.entries(given).flatMap(([other, value]) => (other === flag ? [] : [...value()]));
      const own = flag.startsWith('--') ? [flag] : [];
      cases.push({
        name: `${command
          .slice(0, 2)
          .filter((word) => !word.startsWith('-'))
          .join(' ')} ${flag}`,
        side: outputs.includes(flag) ? 'output' : 'input',
        args: (broken) => [...command.slice(0, 2), ...own, broken, ...command.slice(2), ...rest()],
      });
    }
  };
  const flag = (name: string, value: string) => ({ [name]: () => [name, value] });
  const absent = (name: string) => ({ [name]: () => [] });
  const target = (name: string) => ({ [name]: () => [name, out()] });
  const generate = ['generate', '--max-tokens=1', '--threads=1'];
  add(generate, {
    ...flag('--model', model),
    '--prompts': () => ['--prompt', 'hi'],
    ...absent('--adapter'),
    ...absent('--grammar'),
  });
  add(generate, {
    ...flag('--model', model),
    ...absent('--json-schema'),
    '--prompt ': () => ['--prompt', 'hi'],
  });
  cases.splice(
    cases.findIndex(({ name }) => name.endsWith('--prompt ')),
    1,
  );
  add(
    ['eval', '--max-tokens=2', '--per-tier=1', '--threads=1'],
    {
      ...flag('--model', model),
      ...flag('--task', task),
      ...absent('--adapter'),
      ...target('--out'),
    },
    ['--out'],
  );
  add(
    ['train', '--rank=1', '--top=1', '--threads=1'],
    { ...flag('--model', model), ...flag('--data', data), ...target('--out') },
    ['--out'],
  );
  add(
    ['run', ...SMALL_RUN],
    {
      ...flag('--model', model),
      ...flag('--task', task),
      ...target('--out'),
      ...absent('--config'),
    },
    ['--out'],
  );
  add(
    ['ablate', ...SMALL_RUN, '--conditions', 'random-layers', '--seeds', '1'],
    { ...target('--out'), ...absent('--config') },
    ['--out'],
  );
  add(
    ['judge', '--held-out=after'],
    {
      run: () => [run],
      ...flag('--model', model),
      ...flag('--task', task),
      ...absent('--key'),
      ...absent('--head'),
      ...target('--trace'),
    },
    ['--trace'],
  );
  add(['report', '--no-json'], { run: () => [run], ...target('--out') }, ['--out']);
  add(['runs', 'show'], { run: () => [run] });
  add(['runs', 'compare'], { a: () => [run], b: () => [run] });
  for (const action of ['verify', 'prove'])
    add(['log', action, ...(action === 'prove' ? ['--record=0'] : [])], {
      run: () => [run],
      ...absent('--key'),
      ...(action === 'verify' ? absent('--head') : {}),
    });
  for (const action of ['show', 'export']) add(['log', action], { run: () => [run] });
  add(['models', 'inspect'], { model: () => [model] });
  add(['adapters', 'inspect'], { adapter: () => [adapter] });
  add(
    ['adapters', 'export', '--format=gguf'],
    { adapter: () => [adapter], ...flag('--model', model), ...target('--out') },
    ['--out'],
  );
  add(
    ['adapters', 'merge'],
    { ...flag('--adapter', adapter), ...flag('--model', model), ...target('--out') },
    ['--out'],
  );
  add(['adapters', 'publish', '--signer=single-process'], {
    adapter: () => [adapter],
    ...flag('--model', model),
  });
  add(['adapters', 'validate'], { ...absent('--registry'), ...absent('--key') });
  add(['adapters', 'history'], absent('--check'));
  add(['tasks', 'generate'], flag('--task', task));
  add(['tasks', 'baselines', '--count=1'], flag('--task', task));
  add(['tasks', 'verify'], { file: () => [data], ...flag('--task', task) });
  add(['bench', 'rollout'], flag('--model', model));
  add(['bench', 'loop'], flag('--model', model));
  return cases;
}

/** A path of that kind; its name ends as each command expects it. */
export function brokenPath(
  folder: string,
  kind: Kind,
  side: 'input' | 'output',
  ending: string,
): string {
  const place = path.join(folder, `${side}-${kind}${ending}`);
  const content = (bytes: string | Uint8Array): string => {
    writeFileSync(place, bytes);
    return place;
  };
  switch (kind) {
    case 'missing':
      return place;
    case 'folder':
      mkdirSync(place, { recursive: true });
      writeFileSync(path.join(place, 'inside'), 'x');
      return place;
    case 'device':
      return side === 'input' ? '/dev/zero' : '/dev/null';
    case 'full':
      return '/dev/full';
    case 'mark':
      return content('\ufeff');
    case 'empty':
      return content('');
    case 'binary': {
      const random = new Random(7n);
      return content(Uint8Array.from({ length: 5000 }, () => random.nextInteger(0, 255)));
    }
    case 'huge': {
      const file = openSync(place, 'w');
      ftruncateSync(file, 3_000_000_000); // without blocks: it costs no space
      closeSync(file);
      return place;
    }
    case 'forbidden':
      if (side === 'input') {
        content('x');
        chmodSync(place, 0o000);
        return place;
      }
      mkdirSync(place, { recursive: true });
      chmodSync(place, 0o555);
      return path.join(place, 'inside');
    case 'homeless':
      return path.join(folder, 'no', 'such', 'folder', 'out');
    case 'below-a-file':
      writeFileSync(path.join(folder, 'a-file'), '');
      return path.join(folder, 'a-file', 'out');
    case 'nowhere':
      return '/proc/no/such/place';
  }
}
