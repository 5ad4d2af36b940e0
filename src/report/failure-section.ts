/** Section on why replies did not pass: test problems before and after, and rollouts. */
import type { Failures } from '../run-folder/derived-figures.js';
import { testEvaluation, type RunRecord, type TierInfo } from '../run-folder/read-run.js';
import { failed, reasonShown } from '../text/failures.js';
import { html, label, type Html } from '../text/hostile-text.js';
import { heads, more, section, tierName, type Section } from './markup.js';

const SHOWN = 20;

const said = (what: string, text: string | undefined): Html | false =>
  text !== undefined && html`${what} <code>${label(text, 260)}</code> `;

function part(
  title: string,
  failures: Failures | null | undefined,
  tiers: readonly TierInfo[],
): Html[] {
  if (failures == null || failures.rows.length === 0) return [];
  const { rows, replies } = failures;
  return [
    html`<h3>${title}</h3>
<p class="note muted">${failed(failures)} of ${replies} replies.</p>
<table class="text failures"><thead><tr>${heads(['category', 'count', 'why, and one of them'])}</tr></thead><tbody>
${rows.slice(0, SHOWN).map(
  ({ kind, count, why, example }) => html`<tr><td>${kind}</td><td>${count}</td>
<td>${label(reasonShown({ kind, why }), 300)}${
    example !== null &&
    html`<br>${tierName(example.tier, tiers)} ${said('asked', example.asked)}${example.asked !== undefined && 'said '}<code>${label(
      example.text,
      260,
    )}</code>${said(' right', example.right)}`
  }</td></tr>
`,
)}</tbody></table>
${more(SHOWN, rows.length, 'reasons')}`,
  ];
}

export function failureSection(run: RunRecord): Section | null {
  const parts = [
    ...part('Test problems, before', testEvaluation(run, 'before')?.failures, run.tiers),
    ...part('Test problems, after', testEvaluation(run, 'after')?.failures, run.tiers),
    ...part('Rollouts', run.failures, run.tiers),
  ];
  return parts.length === 0 ? null : section('failures', 'Why replies fail', parts);
}
