// `npm run docs:errors`: writes docs/errors.md from the table in src/errors.ts (as built in dist/).
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

/** docs/errors.md for a table of codes and remedies. */
export function errorsPage(errors) {
  const rows = Object.entries(errors).map(
    ([code, remedy]) => `| \`${code}\` | ${remedy.replaceAll('|', '\\|')} |`,
  );
  return [
    '# Errors',
    '',
    'Written by `npm run docs:errors` from `src/errors.ts`; do not edit.',
    '',
    'What isopro-native throws on purpose is an `IsoproError` with a `code` that is stable across versions, a `message` that says',
    'what happened, and a `remedy`, the one below or one that fits the place better; functions of `statistics` throw a',
    '`RangeError` for arguments that make no sense. The command line prints code, message and remedy on stderr (with `--json`, as',
    '`{"error": {code, message, remedy}}`) and ends with exit code 1, or 130 for `ABORTED`. Wrong flags and arguments are no error of this',
    'table: their code is `USAGE`, without a remedy, and the exit code 2.',
    '',
    '| code | what to do |',
    '|---|---|',
    ...rows,
    '',
  ].join('\n');
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { ERRORS } = await import('../dist/src/errors.js');
  writeFileSync(
    path.join(path.dirname(path.dirname(fileURLToPath(import.meta.url))), 'docs', 'errors.md'),
    errorsPage(ERRORS),
  );
}
