/** Tables of Markdown pages. */
const row = (cells) =>
  `| ${cells.map((cell) => String(cell).replaceAll('|', '\\|')).join(' | ')} |`;
/** The first column is text, the others are figures. */
export const table = (heads, rows) =>
  [row(heads), row(heads.map((_, i) => (i === 0 ? '---' : '---:'))), ...rows.map(row)].join('\n');
