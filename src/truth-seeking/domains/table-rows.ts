/** Rows of a text table with `|` between cells; an indented line continues the row above it. */
export const tableRows = <Row extends readonly (string | undefined)[]>(table: string): Row[] =>
  table
    .trim()
    .replace(/\n\s+/g, ' ')
    .split('\n')
    .map((row) => row.split(/ *\| */) as unknown as Row);
