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
    'Every error that isopro-native throws on purpose is an `IsoproError`.',
    'Its `code` is stable across versions, and its `message` says what happened.',
    'Its `remedy` is the one below, or one that fits the place better.',
    'Functions of `statistics` throw a `RangeError` if their arguments make no sense.',
    '',
    'The command line prints code, message and remedy on stderr.',
    'With `--json` it prints `{"error": {code, message, remedy}}`.',
    'It ends with exit code 1, or with 130 for `ABORTED`.',
    'Wrong flags and arguments are not in this table.',
    'Their code is `USAGE`, they have no remedy, and the exit code is 2.',
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
