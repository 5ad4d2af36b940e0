/** One word of a command that a user is told to type. */
export function shellWord(word: string): string {
  if (/^[\w@%+=:,./\\-]+$/.test(word)) return word;
  return process.platform === 'win32' ? `"${word}"` : `'${word.replaceAll("'", "'\\''")}'`;
}
