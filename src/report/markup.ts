/** Building blocks of the sections of a report. */
import type { PairedCounts } from '../run-folder/comparison.js';
import { pValue } from '../text/figures.js';
import type { TierInfo } from '../run-folder/read-run.js';
import { html, Html, label, type HtmlValue } from '../text/hostile-text.js';

/** Rows of a table; what is left out is counted. */
export const ROWS = 120;

export const COLUMNS = 16;
export const name = (text: string, length = 40): Html => html`<bdi>${label(text, length)}</bdi>`;
/** A part of the page that the list of contents names. */
export class Section extends Html {
  constructor(
    readonly id: string,
    readonly title: string,
    body: readonly HtmlValue[],
  ) {
    super(
      html`<section id="${id}"><h2>${title}</h2>
${body}</section>
`.text,
    );
  }
}
export const section = (id: string, title: string, ...body: HtmlValue[]): Section =>
  new Section(id, title, body);
export const contents = (sections: readonly Section[]): Html => html`<nav aria-label="contents"><ul>
${sections.map(
  ({ id, title }) => html`<li><a href="#${id}">${title}</a></li>
`,
)}</ul></nav>
`;

/** A figure with its caption in a row of such. */
export const card = (value: string, caption: HtmlValue): Html =>
  html`<div class="card"><b>${value}</b><span>${caption}</span></div>`;
/** Date and time of microseconds since 1970, in UTC to the second. */
export const time = (us: number): string =>
  new Date(us / 1000).toISOString().replace('T', ' ').slice(0, 19);

/** @param description for readers who cannot see the chart */
export const figure = (
  chart: Html | null,
  title: string,
  description: string,
  caption: HtmlValue,
): Html | null =>
  chart === null
    ? null
    : html`<h3>${title}</h3>
<figure role="img" aria-label="${description}"><div class="chart">${chart}</div><figcaption>${caption}</figcaption></figure>`;
export const cells = (values: readonly HtmlValue[]): Html[] =>
  values.map((value) => html`<td>${value}</td>`);
export const heads = (values: readonly HtmlValue[]): Html[] =>
  values.map((value) => html`<th>${value}</th>`);
/** A tier's id with what it is called, where it is called anything. */
export const tierName = (key: string, tiers: readonly TierInfo[], length = 24): Html => {
  const title = tiers.find(({ id }) => id === key)?.title ?? '';
  return html`${name(key, length)}${title !== '' && html` <small class="title">${label(title, 60)}</small>`}`;
};
export const tierHeads = (keys: readonly string[], tiers: readonly TierInfo[]): Html[] =>
  keys.map((key) => html`<th class="tier">${tierName(key, tiers, 16)}</th>`);
export const list = (rows: readonly (readonly [HtmlValue, HtmlValue])[]): Html =>
  html`<dl>${rows.map(([term, value]) => html`<dt>${term}</dt><dd>${value}</dd>`)}</dl>`;
export const more = (shown: number, of: number, what: string): HtmlValue =>
  of > shown && html`<p class="note muted">${of - shown} further ${what} are in the log.</p>`;
export const pairOf = (of: PairedCounts | null | undefined): [string, string] =>
  of == null ? ['–', '–'] : [`+${of.gained} −${of.lost}`, pValue(of.p)];
export const figureOf = (value: number | null): string =>
  value === null ? '–' : Number.isFinite(value) ? value.toPrecision(3) : String(value);
