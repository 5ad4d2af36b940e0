/** The small parts that pages are made of. */
import type { ComponentChildren, JSX } from 'preact';
import { useEffect, useId, useRef, useState } from 'preact/hooks';
import type { Finding, Rate, Tone } from './api.ts';
import { percent } from './format.js';
import { href } from './router.ts';

export const Badge = ({
  tone,
  children,
}: {
  tone: Tone | 'plain' | 'live';
  children: ComponentChildren;
}): JSX.Element => <span class={`badge ${tone}`}>{children}</span>;

const STATES: Readonly<Record<string, readonly [Tone | 'plain' | 'live', string]>> = {
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
export const StateBadge = ({ state }: { state: string }): JSX.Element => {
  const [tone, text] = STATES[state] ?? (['plain', state] as const);
  return <Badge tone={tone}>{text}</Badge>;
};

interface Named {
  readonly name: string;
  readonly state: string;
  readonly reason: string | null;
  readonly seed: string | null;
}
/** What a table calls a run: a link to it, or why it cannot be read. */
export const RunName = ({
  run,
  to,
  children,
}: {
  run: Named;
  to: string;
  children: ComponentChildren;
}): JSX.Element =>
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

export const VerdictBadge = ({ verdict }: { verdict: string | null }): JSX.Element => (
  <span class={`verdict ${verdict === 'pass' ? 'good' : verdict === 'fail' ? 'bad' : 'fair'}`}>
    <span aria-hidden="true">{verdict === 'pass' ? '✓' : verdict === 'fail' ? '✗' : '?'}</span>{' '}
    {verdict ?? 'no verdict'}
  </span>
);

/** Of a change that may be called one. */
export const toneOf = (finding: Finding | null): Tone | undefined =>
  finding === 'better' ? 'good' : finding === 'worse' ? 'bad' : undefined;

export const Card = ({
  value,
  tone,
  children,
}: {
  value: ComponentChildren;
  tone?: Tone;
  children: ComponentChildren;
}): JSX.Element => (
  <div class="card">
    <b class={tone}>{value}</b>
    <span>{children}</span>
  </div>
);

export const Panel = ({
  title,
  note,
  actions,
  children,
  id,
}: {
  title?: string;
  note?: ComponentChildren;
  actions?: ComponentChildren;
  children: ComponentChildren;
  id?: string;
}): JSX.Element => {
  const made = useId();
  const heading = id ?? made;
  return (
    <section class="panel" aria-labelledby={title === undefined ? undefined : heading}>
      {title !== undefined && (
        <div class="panel-head">
          <h2 id={heading}>{title}</h2>
          {actions !== undefined && <div class="actions">{actions}</div>}
        </div>
      )}
      {note !== undefined && <p class="note">{note}</p>}
      {children}
    </section>
  );
};

export const Fault = ({ error }: { error: Error }): JSX.Element => (
  <p class="fault" role="alert">
    {error.message}
  </p>
);

export const Waiting = ({ what = 'Loading' }: { what?: string }): JSX.Element => (
  <p class="waiting" role="status">
    <span class="spinner" aria-hidden="true" /> {what}…
  </p>
);

export const Empty = ({
  title,
  children,
}: {
  title: string;
  children?: ComponentChildren;
}): JSX.Element => (
  <div class="empty">
    <p class="empty-title">{title}</p>
    {children}
  </div>
);

/** The head of a page; screen readers are told where they have come to. */
export const PageHead = ({
  title,
  above,
  badges,
  actions,
  children,
}: {
  title: string;
  above?: ComponentChildren;
  badges?: ComponentChildren;
  actions?: ComponentChildren;
  children?: ComponentChildren;
}): JSX.Element => {
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

/** What is wider than its room; the tab key reaches it, so that a keyboard can scroll it. */
export const Wide = ({
  label,
  children,
}: {
  label: string;
  children: ComponentChildren;
}): JSX.Element => (
  // biome-ignore lint/a11y/noNoninteractiveTabindex: a keyboard scrolls only what it can reach
  <section class="wide" tabIndex={0} aria-label={label}>
    {children}
  </section>
);

/** Text as it is, which may be longer than its room; the tab key reaches it as it does `Wide`. */
export const Excerpt = ({
  label,
  children,
  ...others
}: {
  /** Where no heading beside it names it. */
  label?: string;
  class?: string;
  'aria-live'?: 'polite';
  'aria-busy'?: boolean;
  children: ComponentChildren;
}): JSX.Element => (
  // biome-ignore lint/a11y/useAriaPropsSupportedByRole: wherever it has a label it has a role
  <pre {...others} tabIndex={0} role={label === undefined ? undefined : 'group'} aria-label={label}>
    {children}
  </pre>
);

/** Buttons of which one is pressed. */
export const Tabs = ({
  label,
  small = false,
  children,
}: {
  label: string;
  small?: boolean;
  children: ComponentChildren;
}): JSX.Element => (
  // biome-ignore lint/a11y/useSemanticElements: a fieldset groups members of a form
  <div class={small ? 'tabs small' : 'tabs'} role="group" aria-label={label}>
    {children}
  </div>
);

export const Table = ({
  caption,
  head,
  children,
  className = '',
}: {
  caption: string;
  head: readonly ComponentChildren[];
  children: ComponentChildren;
  className?: string;
}): JSX.Element => (
  <Wide label={caption}>
    <table class={className}>
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

/** A mean with its interval as a bar between 0 and 1. */
export const RateBar = ({
  rate,
  against,
}: {
  rate: Rate | null;
  against?: Rate | null;
}): JSX.Element => {
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

export const Progress = ({
  done,
  total,
  label,
}: {
  done: number;
  total: number;
  label: string;
}): JSX.Element => (
  <progress
    max={Math.max(1, total)}
    value={Math.min(done, Math.max(1, total))}
    aria-label={label}
  />
);

/** A command that can be copied. */
export const Command = ({ text }: { text: string }): JSX.Element => {
  const [said, setSaid] = useState('copy');
  const place = useRef<HTMLElement>(null);
  const copy = async (): Promise<void> => {
    try {
      await navigator.clipboard.writeText(text);
      setSaid('copied');
    } catch {
      getSelection()?.selectAllChildren(place.current!);
      setSaid('marked: copy it with the keyboard');
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

/** Asks before something is done that others notice. */
export const Dialog = ({
  title,
  onClose,
  children,
}: {
  title: string;
  onClose: () => void;
  children: ComponentChildren;
}): JSX.Element => {
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
