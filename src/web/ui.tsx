/** Building blocks of the pages. */
import type { ComponentChildren, FunctionComponent, JSX } from 'preact';
import { useEffect, useId, useRef, useState } from 'preact/hooks';
import { ApiError, get, type Finding, type Rate, type Tone } from './api.ts';
import { percent } from './format.ts';
import { useLoaded, type Loaded } from './loading.ts';
import { href } from './router.ts';

type BadgeTone = Tone | 'plain' | 'live';
export const Badge: FunctionComponent<{ tone: BadgeTone }> = ({ tone, children }) => (
  <span class={`badge ${tone}`}>{children}</span>
);

const STATES: Readonly<Record<string, readonly [BadgeTone, string]>> = {
  ended: ['plain', 'ended'],
  unfinished: ['live', 'not ended'],
  damaged: ['bad', 'damaged'],
  unreadable: ['bad', 'unreadable'],
  queued: ['plain', 'queued'],
  running: ['live', 'running'],
  paused: ['fair', 'paused'],
  succeeded: ['good', 'succeeded'],
  failed: ['bad', 'failed'],
  cancelled: ['fair', 'cancelled'],
};
export const StateBadge: FunctionComponent<{ state: string }> = ({ state }) => {
  const [tone, text] = STATES[state] ?? (['plain', state] as const);
  return <Badge tone={tone}>{text}</Badge>;
};

interface Named {
  readonly name: string;
  readonly state: string;
  readonly reason: string | null;
  readonly seed: string | null;
}
/** Cell that names a run: a link to it, or the reason why it cannot be read. */
export const RunName: FunctionComponent<{ run: Named; to: string }> = ({ run, to, children }) =>
  run.state === 'unreadable' ? (
    <span>
      {run.name} <small class="bad">{run.reason}</small>
    </span>
  ) : (
    <a href={href([to, run.name])}>
      <b>{children}</b>
      <small>
        {run.name.slice(0, 40)} · seed {run.seed}
      </small>
    </a>
  );

const VERDICTS: Readonly<Record<string, readonly [Tone, string]>> = {
  pass: ['good', '✓'],
  fail: ['bad', '✗'],
};
/** @param mark shows the sign alone; the word is left to screen readers and the tooltip */
export const VerdictBadge: FunctionComponent<{ verdict: string | null; mark?: boolean }> = ({
  verdict,
  mark = false,
}) => {
  const [tone, sign] = VERDICTS[verdict ?? ''] ?? ['fair', '?'];
  const text = verdict ?? 'no verdict';
  return (
    <span class={mark ? tone : `verdict ${tone}`} title={mark ? text : undefined}>
      <span aria-hidden="true">{sign}</span> <span class={mark ? 'hidden' : undefined}>{text}</span>
    </span>
  );
};

/** Tone of a change, if it is statistically distinguishable from none. */
export const toneOf = (finding: Finding | null): Tone | undefined =>
  finding === 'better' ? 'good' : finding === 'worse' ? 'bad' : undefined;

export const Card: FunctionComponent<{ value: ComponentChildren; tone?: Tone }> = ({
  value,
  tone,
  children,
}) => (
  <div class="card">
    <b class={tone}>{value}</b>
    <span>{children}</span>
  </div>
);

export const Panel: FunctionComponent<{
  title: string;
  note?: ComponentChildren;
  actions?: ComponentChildren;
}> = ({ title, note, actions, children }) => {
  const heading = useId();
  return (
    <section class="panel" aria-labelledby={heading}>
      <div class="panel-head">
        <h2 id={heading}>{title}</h2>
        {actions !== undefined && <div class="actions">{actions}</div>}
      </div>
      {note !== undefined && <p class="note">{note}</p>}
      {children}
    </section>
  );
};

export const Fault: FunctionComponent<{ error: Error | null }> = ({ error }) =>
  error && (
    <p class="fault" role="alert">
      {error.message}
    </p>
  );

export const Waiting: FunctionComponent<{ what: string }> = ({ what }) => (
  <p class="waiting" role="status">
    <span class="spinner" aria-hidden="true" /> {what}…
  </p>
);

export const Empty: FunctionComponent<{ title: string }> = ({ title, children }) => (
  <div class="empty">
    <p class="empty-title">{title}</p>
    {children}
  </div>
);

/**
 * What was loaded, as soon as it is there; until then a note that it is being loaded, or the error.
 * @param absent shown instead of the error if the server does not have it
 */
export function Show<T>({
  of: { value, error },
  waiting,
  absent,
  children,
}: {
  of: Pick<Loaded<T>, 'value' | 'error'>;
  waiting: string;
  absent?: ComponentChildren;
  children: (value: T) => ComponentChildren;
}): JSX.Element {
  const isAbsent = absent !== undefined && error instanceof ApiError && error.status === 404;
  return (
    <>
      {isAbsent ? absent : <Fault error={error} />}
      {value === null && error === null && <Waiting what={waiting} />}
      {value !== null && children(value)}
    </>
  );
}

/** Head of a page. It takes the focus, so that screen readers announce the page. */
export const PageHead: FunctionComponent<{
  title: string;
  above?: ComponentChildren;
  badges?: ComponentChildren;
  actions?: ComponentChildren;
}> = ({ title, above, badges, actions, children }) => {
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    document.title = `${title} · isopro-native`;
    heading.current?.focus({ preventScroll: true });
  }, [title]);
  return (
    <div class="page-head">
      {above !== undefined && <p class="above">{above}</p>}
      <div class="title-row">
        <h1 ref={heading} tabIndex={-1}>
          {title}
        </h1>
        {badges !== undefined && <span class="badges">{badges}</span>}
        {actions !== undefined && <span class="actions">{actions}</span>}
      </div>
      {children}
    </div>
  );
};

/** Content wider than its room. The tab key reaches it, so that a keyboard can scroll it. */
export const Wide: FunctionComponent<{ label: string }> = ({ label, children }) => (
  // biome-ignore lint/a11y/noNoninteractiveTabindex: a keyboard scrolls only what it can reach
  <section class="wide" tabIndex={0} aria-label={label}>
    {children}
  </section>
);

/** Preformatted text that may be longer than its room; the tab key reaches it, as with `Wide`. */
export const Excerpt: FunctionComponent<{
  /** For text without a heading of its own. */
  label?: string;
  class?: string;
  'aria-live'?: 'polite';
  'aria-busy'?: boolean;
}> = ({ label, children, ...others }) => (
  // biome-ignore lint/a11y/useAriaPropsSupportedByRole: wherever it has a label it has a role
  <pre {...others} tabIndex={0} role={label === undefined ? undefined : 'group'} aria-label={label}>
    {children}
  </pre>
);

/** Buttons of which one is pressed. */
export function Tabs<Name extends string>({
  label,
  small = false,
  tabs,
  on,
  onPick,
}: {
  label: string;
  small?: boolean;
  tabs: readonly (readonly [Name, text: string])[];
  on: Name;
  onPick: (name: Name) => void;
}): JSX.Element {
  return (
    // biome-ignore lint/a11y/useSemanticElements: a fieldset groups members of a form
    <div class={small ? 'tabs small' : 'tabs'} role="group" aria-label={label}>
      {tabs.map(([name, text]) => (
        <button
          type="button"
          class="tab"
          key={name}
          aria-pressed={on === name}
          onClick={() => onPick(name)}
        >
          {text}
        </button>
      ))}
    </div>
  );
}

export const Select: FunctionComponent<{
  label: string;
  value: string | undefined;
  options: readonly (readonly [value: string, text: string])[];
  onPick: (value: string) => void;
}> = ({ label, value, options, onPick }) => (
  <select
    aria-label={label}
    value={value ?? ''}
    onChange={(event) => onPick(event.currentTarget.value)}
  >
    {options.map(([each, text]) => (
      <option key={each} value={each}>
        {text}
      </option>
    ))}
  </select>
);

/** Labelled field of a form: an input if it has `onText`, then the children. */
export const LabelledField: FunctionComponent<{
  label: string;
  class?: string;
  onText?: (text: string) => void;
  value?: string | number;
  type?: 'number' | 'text';
  min?: number;
  max?: number;
  step?: number;
  maxLength?: number;
  placeholder?: string;
  list?: string;
  required?: boolean;
}> = ({ label, onText, class: look = 'field', children, ...input }) => (
  // biome-ignore lint/a11y/noLabelWithoutControl: the control is the input or among the children
  <label class={look}>
    <span>{label}</span>
    {onText !== undefined && (
      <input {...input} onInput={(event) => onText(event.currentTarget.value)} />
    )}
    {children}
  </label>
);

export const Table: FunctionComponent<{
  caption: string;
  head: readonly ComponentChildren[];
  class?: string;
}> = ({ caption, head, class: look, children }) => (
  <Wide label={caption}>
    <table class={look}>
      <caption class="hidden">{caption}</caption>
      <thead>
        <tr>
          {head.map((cell, i) => (
            <th key={i} scope="col">
              {cell}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>{children}</tbody>
    </table>
  </Wide>
);

/** Head, content and class of a column. A narrow screen repeats the head in cells without class. */
export type Column<Row> = readonly [
  head: ComponentChildren,
  cell: (row: Row) => ComponentChildren,
  look?: string,
];

/**
 * Table with a row for each item, and further rows as children.
 * @param by member that identifies an item; default: its place
 */
export function List<Row>({
  rows,
  by,
  columns,
  children,
  ...others
}: {
  caption: string;
  class?: string;
  rows: readonly Row[];
  by?: keyof Row;
  columns: readonly (Column<Row> | false)[];
  children?: ComponentChildren;
}): JSX.Element {
  const shown = columns.filter((column) => column !== false);
  return (
    <Table {...others} head={shown.map(([head]) => head)}>
      {rows.map((row, i) => (
        <tr key={by === undefined ? i : String(row[by])}>
          {shown.map(([head, cell, look], j) => (
            <td
              key={j}
              class={look}
              data-label={
                typeof head === 'string' && look === undefined ? head || undefined : undefined
              }
            >
              {cell(row)}
            </td>
          ))}
        </tr>
      ))}
      {children}
    </Table>
  );
}

/** Names and their values; rows that are false are left out. */
export const Facts: FunctionComponent<{
  class?: string;
  rows: readonly (readonly [name: string, value: ComponentChildren] | false)[];
}> = ({ class: look = 'facts', rows }) => (
  <dl class={look}>
    {rows.map(
      (row, i) =>
        row !== false && (
          <div key={i}>
            <dt>{row[0]}</dt>
            <dd>{row[1]}</dd>
          </div>
        ),
    )}
  </dl>
);

/** A mean with its interval as a bar between 0 and 1. */
export const RateBar: FunctionComponent<{ rate: Rate | null; against?: Rate | null }> = ({
  rate,
  against,
}) => {
  if (rate === null || rate.mean === null) return <span class="muted">–</span>;
  const x = (value: number): number => 2 + 116 * Math.min(1, Math.max(0, value));
  return (
    <span class="rate">
      <svg width="120" height="14" viewBox="0 0 120 14" aria-hidden="true">
        <line class="rate-ground" x1="2" x2="118" y1="7" y2="7" />
        <line class="rate-interval" x1={x(rate.low)} x2={x(rate.high)} y1="7" y2="7" />
        {against?.mean != null && (
          <line class="rate-before" x1={x(against.mean)} x2={x(against.mean)} y1="1" y2="13" />
        )}
        <circle class="rate-mean" cx={x(rate.mean)} cy="7" r="4" />
      </svg>
      <span class="rate-text">
        {percent(rate.mean)}{' '}
        <small>{`${(100 * rate.low).toFixed(0)}–${(100 * rate.high).toFixed(0)}`}</small>
      </span>
    </span>
  );
};

interface ProgressProps {
  readonly done: number;
  readonly total: number;
  readonly label: string;
}
export const Progress: FunctionComponent<ProgressProps> = ({ done, total, label }) => {
  const most = Math.max(1, total);
  return <progress max={most} value={Math.min(done, most)} aria-label={label} />;
};

/** A command that can be copied. */
export const Command: FunctionComponent<{ text: string }> = ({ text }) => {
  const [said, setSaid] = useState('copy');
  const place = useRef<HTMLElement>(null);
  const copy = async (): Promise<void> => {
    try {
      await navigator.clipboard.writeText(text);
      setSaid('copied');
    } catch {
      getSelection()?.selectAllChildren(place.current!);
      setSaid('selected: copy it with the keyboard');
    }
  };
  return (
    <div class="command">
      <code ref={place}>{text}</code>
      <button type="button" class="quiet" onClick={() => void copy()} aria-label="copy the command">
        {said}
      </button>
    </div>
  );
};

/** Window that asks before a change that others notice. */
export const Dialog: FunctionComponent<{ title: string; onClose: () => void }> = ({
  title,
  onClose,
  children,
}) => {
  const place = useRef<HTMLDialogElement>(null);
  const heading = useId();
  useEffect(() => {
    place.current?.showModal();
    return () => place.current?.close();
  }, []);
  return (
    <dialog ref={place} aria-labelledby={heading} onClose={onClose}>
      <div class="panel-head">
        <h2 id={heading}>{title}</h2>
        <button type="button" class="quiet" onClick={onClose} aria-label="close">
          ✕
        </button>
      </div>
      {children}
    </dialog>
  );
};

/**
 * A report in a frame that has neither this page's address nor its key.
 * @param props.stamp loads the report again when it changes
 */
export const Report: FunctionComponent<{ path: string; title: string; stamp?: string }> = ({
  path,
  title,
  stamp = '',
}) => (
  <Show
    of={useLoaded((signal) => get<{ url: string }>(path, signal), `${path} ${stamp}`)}
    waiting="Writing the report"
  >
    {({ url }) => (
      <>
        <p class="note">
          The same page as report.html of the run.{' '}
          <a href={url} target="_blank" rel="noreferrer noopener">
            Open it in its own tab
          </a>
        </p>
        <iframe class="report" title={title} src={url} sandbox="allow-scripts allow-popups" />
      </>
    )}
  </Show>
);
