/** The top of a report: which run, whether its log holds, what came of it. */
import { testComparison } from '../run-folder/comparison.js';
import { testEvaluation, type RunRecord } from '../run-folder/read-run.js';
import { readWrittenSettings } from '../run-folder/written-settings.js';
import { bestPolicy, conclusion } from '../text/conclusion.js';
import { percent, points, pValue, whole } from '../text/figures.js';
import { html, label, type Html } from '../text/hostile-text.js';
import { integrityLine, type Integrity } from './integrity.js';
import { judgedBadge, readJudged } from './judge-badge.js';
import { card, name, time } from './markup.js';
import type { Summary } from '../statistics/index.js';

const duration = (seconds: number): string =>
  seconds < 120
    ? `${seconds.toFixed(0)} s`
    : seconds < 7200
      ? `${(seconds / 60).toFixed(1)} min`
      : `${(seconds / 3600).toFixed(1)} h`;

/** Caption of a mean over tiers; the rate of a single tier is not a mean. */
const overTiers = ({ byTier }: Pick<Summary, 'byTier'>): string =>
  Object.keys(byTier).length === 1 ? '' : ', mean over tiers';

export function header(run: RunRecord, integrity: Integrity): Html {
  const { manifest, end, time: at, defects } = run;
  const { model, task, settings, code: version } = manifest.start;
  const [before, after] = [testEvaluation(run, 'before'), testEvaluation(run, 'after')];
  const comparison = testComparison(run);
  const { text, tone } =
    defects.length > 0 && integrity.outcome === 'unchecked'
      ? ({ text: 'log missing or damaged', tone: 'bad' } as const)
      : integrityLine(integrity);
  const judged = judgedBadge(readJudged(run), run, integrity);
  const reliable = !['tampered', 'truncated', 'equivocation'].includes(integrity.outcome);
  const best = bestPolicy(run);
  const seed = label(readWrittenSettings(settings).seed ?? '–', 20);
  const iterations = `${run.iterations.length} iteration${run.iterations.length === 1 ? '' : 's'}`;
  return html`<header>
<p class="muted note">isopro-native ${label(version.version)} · run ${manifest.runId} · seed ${seed}${
    at !== null && html` · ${time(at.first)} UTC`
  }</p>
<h1>${name(model.name, 80)} on ${name(task.id, 60)}</h1>
<p class="conclusion${!reliable && ' bad'}">${reliable ? conclusion(run) : 'Nothing on this page is reliable.'}</p>
<p><span class="badge ${judged.tone}">${judged.text}</span>
<span class="badge ${tone === 'good' ? 'plain' : tone}">${text}</span></p>
${
  end === null
    ? html`<p class="fair"><b>The run has not ended.</b> This page shows what its log holds so far.</p>`
    : html`<p class="muted">Ended after ${iterations}: ${name(end.stopped, 200)}.</p>`
}
${defects.map((defect) => html`<p class="bad">${label(defect, 400)}</p>`)}
<div class="cards">
${before !== null && card(`${percent(before.summary.mean)} %`, `of the test problems solved before${overTiers(before.summary)}`)}
${after !== null && card(`${percent(after.summary.mean)} %`, `solved after${overTiers(after.summary)}`)}
${
  best !== null &&
  card(
    `${percent(best[1].mean)} %`,
    html`solved by ${name(best[0], 60)}, the best of ${Object.keys(run.policies).length} trivial programs, without a model`,
  )
}
${
  comparison?.difference != null &&
  card(
    points(comparison.difference.mean),
    `points of change; 95 % interval ${points(comparison.difference.low)} to ${points(comparison.difference.high)}`,
  )
}
${
  comparison !== null &&
  card(
    pValue(comparison.p),
    `p of that change, exact paired test; ${comparison.gained} problems gained, ${comparison.lost} lost of ${comparison.n}`,
  )
}
${
  end !== null &&
  card(
    duration(end.seconds),
    `${whole(end.tokens.sampled)} tokens sampled, ${whole(end.tokens.trained)} trained on; ` +
      `at most ${whole(end.peakRssBytes / 1e6)} MB resident`,
  )
}
</div>
</header>
`;
}
export const pageTitle = ({ manifest: { start, runId } }: RunRecord): string =>
  `${label(start.model.name)} on ${label(start.task.id)}, run ${runId.slice(0, 8)}`;
