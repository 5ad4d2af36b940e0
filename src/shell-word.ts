/**
 * One word of a command that a user is told to type, whatever is in it: for a POSIX shell, or on
 * Windows for PowerShell. There, double quotes stand around what means nothing to cmd.exe either.
 * In single quotes, of which PowerShell knows five, only these mean anything.
 */
export function shellWord(word: string): string {
  if (process.platform !== 'win32')
    return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
  if (/^[\w+:./\\-]+$/.test(word)) return word;
  if (/^[\p{L}\p{N}\p{M}+:./\\@=,~#_' -]*$/u.test(word) && !word.endsWith('\\')) return `"${word}"`;
  return `'${word.replace(/['\u2018-\u201b]/g, '$&$&')}'`;
}
