/** The small parts that sections of a report are made of. */
import type { PairedCounts } from '../run-folder/comparison.js';
import { pValue } from './figures.js';
import { html, label, type Html, type HtmlValue } from './hostile-text.js';

/** Rows of a table; what is left out is counted. */
export const ROWS = 120;
export const COLUMNS = 16;
export const name = (text: string, length = 40): Html => html`<bdi>${label(text, length)}</bdi>`;
export const section = (id: string, title: string, ...body: HtmlValue[]): Html => html`<section id="${id}"><h2>${title}</h2>
${body}</section>
`;
export const figure = (chart: Html | null, description: string, caption: HtmlValue): Html | null =>
  chart === null
    ? null
    : html`<figure role="img" aria-label="${description}"><div class="chart">${chart}</div><figcaption>${caption}</figcaption></figure>`;
export const cells = (values: readonly HtmlValue[]): Html[] => values.map((value) => html`<td>${value}</td>`);
export const heads = (values: readonly HtmlValue[]): Html[] => values.map((value) => html`<th>${value}</th>`);
export const tierHeads = (keys: readonly string[]): Html[] => heads(keys.map((key) => name(key, 16)));
export const list = (rows: readonly (readonly [HtmlValue, HtmlValue])[]): Html =>
  html`<dl>${rows.map(([term, value]) => html`<dt>${term}</dt><dd>${value}</dd>`)}</dl>`;
export const more = (shown: number, of: number, what: string): HtmlValue =>
  of > shown && html`<p class="note muted">${of - shown} further ${what} are in the log.</p>`;
export const pairOf = (of: PairedCounts | null | undefined): [string, string] =>
  of == null ? ['–', '–'] : [`+${of.gained} −${of.lost}`, pValue(of.p)];
export const figureOf = (value: number | null): string =>
  value === null ? '–' : Number.isFinite(value) ? value.toPrecision(3) : String(value);
