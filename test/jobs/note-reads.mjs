/**
 * Loaded by a job's process before its own code (NODE_OPTIONS=--import): appends to the file
 * ISOPRO_READS every path, address and program that it opens, and every module that it imports.
 */
import childProcess from 'node:child_process';
import fs from 'node:fs';
import { register, syncBuiltinESMExports } from 'node:module';
import net from 'node:net';

const noted = process.env.ISOPRO_READS;
const { appendFileSync } = fs;
const note = (first) => {
  const text = typeof first === 'object' ? JSON.stringify(first, null, 0) : String(first);
  appendFileSync(noted, `${first instanceof URL ? first.href : text}\n`);
};
const calls = [
  [fs, ['open', 'openSync', 'readFile', 'readFileSync', 'createReadStream', 'existsSync']],
  [fs, ['stat', 'statSync', 'readdir', 'readdirSync', 'realpathSync', 'cpSync', 'copyFileSync']],
  [fs.promises, ['open', 'readFile', 'stat', 'access', 'readdir']],
  [net, ['connect', 'createConnection']],
  [childProcess, ['spawn', 'spawnSync', 'execFile', 'execFileSync', 'fork']],
];
for (const [module, names] of calls)
  for (const name of names) {
    const call = module[name];
    module[name] = Object.assign((...given) => {
      note(given[0]);
      return call.apply(module, given);
    }, call);
  }
const { fetch } = globalThis;
globalThis.fetch = (...given) => {
  note(given[0]);
  return fetch(...given);
};
syncBuiltinESMExports();
const resolve = `
  import { appendFileSync } from 'node:fs';
  export async function resolve(specifier, context, next) {
    appendFileSync(${JSON.stringify(noted)}, specifier + '\\n');
    return next(specifier, context);
  }`;
register(`data:text/javascript,${encodeURIComponent(resolve)}`);
