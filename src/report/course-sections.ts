/**
 * Sections on the course of a run: learning, other methods, the adapter, rules and remedies. Null
 * if there is nothing to say.
 */
import { devEvaluations, inOrder, type RunRecord } from '../run-folder/read-run.js';
import { readWrittenSettings } from '../run-folder/written-settings.js';
import {
  accuracyChart,
  bufferChart,
  emergenceChart,
  hitRateAndLossChart,
  layerChart,
  timelineChart,
} from './charts.js';
import { bounds, percent, whole, severalOf } from '../text/figures.js';
import { nothingAccepted } from '../text/failures.js';
import { html, label, type Html } from '../text/hostile-text.js';
import {
  cells,
  COLUMNS,
  figure,
  figureOf,
  heads,
  list,
  more,
  name,
  ROWS,
  section,
  tierHeads,
  type Section,
} from './markup.js';

const code = (text: string): Html => html`<code>${text}</code>`;

export function learningSection(run: RunRecord): Section {
  const untrained =
    run.end !== null &&
    [...run.rollouts.values()].every((tiers) =>
      [...tiers.values()].every(({ admitted }) => admitted === 0),
    );
  const several = run.tiers.length > 1;
  const [by, mix] = several
    ? [', by tier', '; the mix of tiers changes from one iteration to the next']
    : ['', ''];
  const figures = [
    figure(
      accuracyChart(run),
      `Dev problems solved${by}`,
      `accuracy on dev problems${several ? ' by tier' : ''} over iterations`,
      `Per cent of ${devEvaluations(run)[0]?.outcomes.length ?? 0} dev problems solved, by iteration; 0 is the base model. ` +
        'Bars are 95 % intervals.',
    ),
    figure(
      hitRateAndLossChart(run),
      'Rollouts that passed, and loss',
      'hit rate and loss over the run',
      `Left: share of the decided replies that passed${mix}. ` +
        'Right: training loss per labelled token.',
    ),
    several
      ? figure(
          emergenceChart(run),
          'Rollouts that passed, by tier',
          'hit rate by tier and iteration',
          'Per cent of sampled replies that passed, by tier and iteration; empty cells had no samples. A frame ' +
            'marks the iteration in which a tier had its first rollout to train on.',
        )
      : null, // as the hit rate above
    figure(
      bufferChart(run),
      'Replay buffer',
      'composition of the replay buffer by iteration',
      several
        ? 'Accepted rollouts in the replay buffer, by tier: as counts, and as shares of the buffer.'
        : 'Accepted rollouts in the replay buffer.',
    ),
  ];
  const found = figures.filter((each) => each !== null);
  return section(
    'learning',
    'Learning',
    untrained &&
      html`<p class="fair">No iteration had a rollout to train on, so nothing was trained.
${label(nothingAccepted(run.failures, run.refused, { ...run.manifest.start.evaluation, samples: undefined }), 600)}</p>`,
    found.length === 0
      ? html`<p class="muted">The log has no records of any iteration.</p>`
      : found,
  );
}

export function methodSection({ methods: compared, tiers }: RunRecord): Section | null {
  if (compared === null || compared.methods.length === 0) return null;
  const [methods, skipped] = [compared.methods.slice(0, ROWS), compared.skipped.slice(0, ROWS)];
  const keys = severalOf(inOrder(Object.keys(methods[0]!.test.byTier), tiers)).slice(0, COLUMNS);
  return section(
    'methods',
    'Methods compared',
    html`<p class="note muted">Per cent of the test problems solved, with the 95 % interval of the mean and the cost of each method. From
comparison.json, which is not part of the signed log.</p>
<div class="wide"><table class="dense"><thead><tr>${heads(['method', 'mean'])}${tierHeads(keys, tiers)}
${heads(['n', 'k', 'tokens', 'seconds'])}</tr></thead><tbody>
${methods.map(
  ({ method, test, k, tokens, seconds }) => html`<tr><td>${name(method)}</td>
<td class="lead">${percent(test.mean)} <small>${bounds(test)}</small></td>
${cells([...keys.map((key) => percent(test.byTier[key]?.mean)), test.n, k, whole(tokens), whole(seconds)])}</tr>
`,
)}</tbody></table></div>
${methods.map(({ method, note }) => html`<p class="note muted">${name(method)}: ${label(note, 200)}</p>`)}
${skipped.map(({ method, reason }) => html`<p class="note muted">${name(method)}: not measured, ${label(reason, 200)}</p>`)}`,
  );
}

export function adapterSection(run: RunRecord): Section | null {
  const { layers, adapterState: state, submission } = run;
  if (layers === null && state === null) return null;
  const targets = Object.entries(submission?.targets ?? state?.targets ?? {});
  const byRank = new Map<string, string[]>();
  for (const [module, { rank, scale }] of targets) {
    const key = `rank ${rank}, scale ${scale}`;
    byRank.set(key, [...(byRank.get(key) ?? []), module]);
  }
  const rows: [string, string][] = [...byRank]
    .slice(0, 20)
    .map(([key, modules]) => [
      key,
      `${modules.length} module${modules.length === 1 ? '' : 's'}: ${label(modules.join(', '), 400)}`,
    ]);
  if (submission !== null)
    rows.push([
      'adapter',
      submission.adapter === null ? 'none: the bare base model' : `${submission.adapter} (SHA-256)`,
    ]);
  if (readWrittenSettings(run.manifest.start.settings).layers.adapterFrom === 'reply')
    rows.push(['acts', "from the reply on; the prompt before it is the base model's"]);
  const chosen = (layers?.layers ?? []).join(', ');
  return section(
    'adapter',
    'What was trained',
    layers !== null &&
      html`<p>Layers ${chosen.length > 600 ? `${chosen.slice(0, 600)}…` : chosen}, chosen by method ${code(label(layers.method))}.</p>`,
    figure(
      layerChart(run),
      'Layers',
      'score of each layer',
      layers?.method === 'gradient'
        ? 'Gradient norm of an untrained adapter by layer. Trained layers are filled.'
        : 'Relative update of the residual stream by layer. Trained layers are filled.',
    ),
    list(rows),
  );
}

interface Event {
  readonly iteration: number;
  readonly what: string;
  readonly text: string;
}

/** Events of rules, remedies and the gate, by iteration. */
export function eventsOf(run: RunRecord): Event[] {
  const events: Event[] = [
    ...run.ruleEvaluations.flatMap(({ iteration, rules }) =>
      Object.entries(rules).flatMap(([rule, { fired, side, value, threshold }]) =>
        fired
          ? [
              {
                iteration,
                what: `${rule} fired`,
                text: `${side}: ${figureOf(value)} against ${figureOf(threshold)}`,
              },
            ]
          : [],
      ),
    ),
    ...run.decisions.map(
      ({ iteration, cites, event_type: type, remedy_direction: direction, justification }) => ({
        iteration,
        what: `decision on ${cites.join(', ')}`,
        text: `${type === 'rule_triggered_no_action' ? 'no action' : direction}: ${justification}`,
      }),
    ),
    ...run.effects.map(({ iteration, rule, operation: { op, ...rest }, executed, failure }) => ({
      iteration,
      what: executed ? `remedy for ${rule}` : `remedy for ${rule} failed`,
      text: `${String(op)} ${JSON.stringify(rest)}${failure === undefined ? '' : `: ${failure}`}`,
    })),
    ...run.gates.map(({ iteration, cause }) => ({
      iteration,
      what: 'gate: back to an earlier adapter',
      text: cause,
    })),
  ];
  return events.sort((a, b) => a.iteration - b.iteration);
}

export function ruleSection(run: RunRecord): Section | null {
  const events = eventsOf(run);
  const evaluated = run.ruleEvaluations.length;
  if (events.length === 0 && run.iterations.length === 0) return null;
  return section(
    'rules',
    'Rules and remedies',
    events.length > 0 &&
      figure(
        timelineChart(run),
        'Rules by iteration',
        'rules fired and remedies by iteration',
        'Ring: a rule fired. Dot inside: its remedy was carried out. Diamond: a remedy failed. Triangle: the gate restored an earlier ' +
          'adapter.',
      ),
    events.length === 0
      ? html`<p class="muted">No rule fired in ${evaluated} evaluation${evaluated === 1 ? '' : 's'}, and the gate never restored an
earlier adapter. With fewer than three obligations a run has no process score, so it says nothing about the process.</p>`
      : html`<div class="wide"><table class="text"><thead><tr>${heads(['iteration', 'what', 'how'])}</tr></thead><tbody>
${events.slice(0, ROWS).map(
  ({
    iteration,
    what,
    text,
  }) => html`<tr>${cells([iteration, label(what, 80), label(text, 300)])}</tr>
`,
)}</tbody></table></div>`,
    more(ROWS, events.length, 'events'),
  );
}
