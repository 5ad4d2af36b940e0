// mutants.mjs [--seed HEX8] [--count 100] [--skip N] [--share I/N] [--out FILE]: changes one place
// of the sources at a time and runs the nearest suites, which should fail. Operators are in
// mutants/typescript.mjs and mutants/cpp.mjs, suites in mutants/nearest.mjs.
//   --seed 8 hexadecimal digits, of which the mutants are drawn; default: those that the hash of
//            HEAD begins with
//   --count  of mutants that are tried; those that do not compile are drawn again
//   --skip   passes over the first mutants of the seed
//   --share I/N: only every Nth mutant from the Ith, and an Nth of the count; one process a
//            checkout, and one --out for all. Run it without --share afterwards to count the
//            results together
//   --out    where results are appended; what is there is not tried again
// It needs some minutes a mutant, and a machine that does nothing else: tests that are held up look
// like killed mutants.
import { execFileSync, spawnSync } from 'node:child_process';
import { appendFileSync, existsSync, mkdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const folder = path.join(root, 'build-mutants');

function flags() {
  const { values } = parseArgs({
    options: {
      seed: { type: 'string' },
      count: { type: 'string', default: '100' },
      skip: { type: 'string', default: '0' },
      share: { type: 'string', default: '1/1' },
      out: { type: 'string' },
    },
  });
  const seed =
    values.seed ??
    execFileSync('git', ['rev-parse', 'HEAD'], { cwd: root, encoding: 'utf8' }).slice(0, 8);
  if (!/^[0-9a-f]{8}$/.test(seed)) throw new Error(`--seed: 8 hexadecimal digits, and not ${seed}`);
  const [count, skip] = [Number(values.count), Number(values.skip)];
  if (![count, skip].every((value) => Number.isSafeInteger(value) && value >= 0))
    throw new Error('--count, --skip: whole numbers');
  const [share, shares] = values.share.split('/').map(Number);
  if (!Number.isSafeInteger(shares) || !(share >= 1 && share <= shares))
    throw new Error(`--share: I/N, and not ${values.share}`);
  return {
    seed,
    count: Math.ceil(count / shares),
    skip,
    share,
    shares,
    out: path.resolve(values.out ?? path.join(folder, `${seed}.jsonl`)),
  };
}

/** A line that was being written when the program was killed is none. */
function recordsIn(file) {
  if (!existsSync(file)) return [];
  return readFileSync(file, 'utf8')
    .split('\n')
    .flatMap((line) => {
      try {
        return [JSON.parse(line)];
      } catch {
        return [];
      }
    });
}

const short = (text) => {
  const line = text.replace(/\s+/g, ' ');
  return line.length > 100 ? `${line.slice(0, 99)}…` : line;
};
const told = ({ file, line, column, operator, before, after }) =>
  `${file}:${line}:${column}  ${operator}  ${short(before)} -> ${short(after)}`;

const { seed, count, skip, share, shares, out } = flags();
// a mutant is one module of dist/src, and the command is to run it
process.env.ISOPRO_UNBUNDLED = '1';
// dist/ is what the sources give, also where a run before this one was killed: its changes are seen
// by their times.
if (
  spawnSync(process.execPath, [path.join(root, 'scripts', 'build-ts.mjs')], { stdio: 'inherit' })
    .status !== 0
)
  process.exit(1);
const { mutantsOf } = await import('./mutants/draw.mjs');
const { Trials } = await import('./mutants/trial.mjs');
const { sources, drawn } = mutantsOf(root, seed);

mkdirSync(path.dirname(out), { recursive: true });
const records = recordsIn(out);
const append = (record) => appendFileSync(out, `${JSON.stringify(record)}\n`);
if (records.length > 0) appendFileSync(out, '\n');
const tried = new Map(
  records
    .filter((record) => record.seed === seed && record.sources === sources)
    .map((record) => [record.at, record]),
);
const times = new Map(
  records
    .filter((record) => record.tests !== undefined)
    .map(({ tests, seconds }) => [tests, seconds]),
);
const trials = new Trials(root, folder, times, (tests, seconds) => append({ tests, seconds }));
for (const [signal, code] of [
  ['SIGINT', 130],
  ['SIGTERM', 143],
])
  process.on(signal, () => {
    trials.stop();
    process.exit(code);
  });

const counted = [];
let at = 0;
for (const mutant of count > 0 ? drawn : []) {
  if (at++ < skip || (at - 1) % shares !== share - 1) continue;
  let record = tried.get(at);
  if (record === undefined) {
    const begun = performance.now();
    const killedBy = await trials.try(mutant);
    const { file, line, column, operator, before, after } = mutant;
    const seconds = Math.round((performance.now() - begun) / 1000);
    record = { seed, sources, at, file, line, column, operator, before, after, killedBy, seconds };
    append(record);
  }
  if (record.killedBy === null) continue;
  counted.push(record);
  console.log(
    `${counted.length}  ${record.killedBy === 'nothing' ? 'survives' : 'killed'}  ${told(record)}`,
  );
  if (counted.length >= count) break;
}

const survivors = counted.filter(({ killedBy }) => killedBy === 'nothing');
console.log(`\nkilled ${counted.length - survivors.length} of ${counted.length} (seed ${seed})`);
for (const survivor of survivors) console.log(`survives: ${told(survivor)}`);
