/** A page with the marks `<!-- NAME -->` and `<!-- end of NAME -->`, and `content` between them. */
export function betweenMarks(page, name, content) {
  const [begin, end] = [`<!-- ${name} -->`, `<!-- end of ${name} -->`];
  const [from, to] = [page.indexOf(begin), page.indexOf(end)];
  if (from < 0 || to < from) throw new Error(`the page has no ${begin} followed by ${end}`);
  return `${page.slice(0, from + begin.length)}\n\n${content}\n\n${page.slice(to)}`;
}
