import type { FunctionComponent, JSX } from 'preact';
import { useRef, useState } from 'preact/hooks';
import { events, get, type AdaptersAnswer, type Status } from '../api.ts';
import { duration, plural } from '../format.ts';
import { useLoaded } from '../loading.ts';
import { Excerpt, Fault, LabelledField, PageHead, Select, Waiting } from '../ui.tsx';

interface Model {
  readonly id: string;
  readonly root: string;
  readonly parent: string | null;
}
interface Message {
  readonly role: 'system' | 'user' | 'assistant';
  readonly content: string;
}
interface Chunk {
  readonly choices: readonly {
    readonly delta: { readonly content?: string | null };
    readonly finish_reason: string | null;
  }[];
  readonly usage?: { readonly completion_tokens: number } | null;
  readonly error?: { readonly message: string };
}
interface Answer {
  readonly text: string;
  readonly finish: string | null;
  readonly tokens: number | null;
  readonly seconds: number | null;
  readonly error: string | null;
}
const NOTHING: Answer = { text: '', finish: null, tokens: null, seconds: null, error: null };

interface Asked {
  readonly maxTokens: number;
  readonly temperature: number;
  readonly seed: string;
}

/**
 * Lists the models of the server, and those published adapters of its base that no alias points to.
 */
async function offered(signal: AbortSignal): Promise<readonly Pick<Model, 'id' | 'parent'>[]> {
  const { data } = await get<{ data: readonly Model[] }>('/v1/models', signal);
  const { registry, modelSha256 } = await get<Status>('/api/status', signal);
  if (!registry) return data;
  // a key that may not read the registry sees the models only
  const { adapters } = await get<AdaptersAnswer>('/api/adapters', signal).catch(() => ({
    adapters: [],
  }));
  const others = adapters.filter(
    ({ id, baseSha256, withdrawn, collected }) =>
      withdrawn === null &&
      !collected &&
      baseSha256 === modelSha256 &&
      !data.some(({ root }) => root === id),
  );
  return [...data, ...others.map(({ name, base }) => ({ id: name, parent: base }))];
}

/** Requests one reply, and reports it as it grows. */
async function ask(
  model: string,
  messages: readonly Message[],
  asked: Asked,
  signal: AbortSignal,
  tell: (answer: Answer) => void,
): Promise<Answer> {
  let answer = NOTHING;
  const begun = performance.now();
  try {
    const body = {
      model,
      messages,
      stream: true,
      stream_options: { include_usage: true },
      max_tokens: asked.maxTokens,
      temperature: asked.temperature,
      seed: asked.seed === '' ? undefined : Number(asked.seed),
    };
    for await (const { choices, usage, error } of events<Chunk>('/v1/chat/completions', {
      body,
      signal,
    })) {
      const [choice] = choices ?? [];
      answer = {
        ...answer,
        text: answer.text + (choice?.delta.content ?? ''),
        finish: choice?.finish_reason ?? answer.finish,
        tokens: usage?.completion_tokens ?? answer.tokens,
        error: error?.message ?? answer.error,
      };
      tell(answer);
    }
  } catch (cause) {
    answer = signal.aborted
      ? { ...answer, finish: 'stopped' }
      : { ...answer, error: (cause as Error).message };
  }
  answer = { ...answer, seconds: (performance.now() - begun) / 1000 };
  tell(answer);
  return answer;
}

const summary = ({ seconds, tokens, finish }: Answer): string =>
  seconds === null
    ? '\u00a0'
    : [
        tokens !== null && plural(tokens, 'token'),
        duration(seconds),
        tokens !== null && seconds >= 0.01 && `${(tokens / seconds).toFixed(1)} per second`,
        finish !== null && `ended by ${finish}`,
      ]
        .filter(Boolean)
        .join(' · ');

const Reply: FunctionComponent<{ model: string; answer: Answer; busy: boolean }> = ({
  model,
  answer,
  busy,
}) => (
  <div class="answer-side">
    <h3>{model}</h3>
    <Excerpt aria-live="polite" aria-busy={busy} label={`reply of ${model}`}>
      {answer.text}
      {busy && <span class="cursor" aria-hidden="true" />}
    </Excerpt>
    {answer.error !== null && <p class="fault">{answer.error}</p>}
    <p class="note">{summary(answer)}</p>
  </div>
);

interface Turn {
  readonly user: string;
  readonly answers: Readonly<Record<string, Answer>>;
}

const TurnShown: FunctionComponent<{ turn: Turn; number: number; busy: boolean }> = ({
  turn,
  number,
  busy,
}) => (
  <section class="turn" aria-label={`turn ${number}`}>
    <pre class="user">{turn.user}</pre>
    <div class="two">
      {Object.entries(turn.answers).map(([side, answer]) => (
        <Reply key={side} model={side} answer={answer} busy={busy && answer.seconds === null} />
      ))}
    </div>
  </section>
);

/** Fields of the sampling options. */
const Options: FunctionComponent<{ asked: Asked; onChange: (asked: Asked) => void }> = ({
  asked,
  onChange,
}) => {
  const number = { class: 'field short', type: 'number', min: 0 } as const;
  return (
    <>
      <LabelledField
        {...number}
        label="Max tokens"
        value={asked.maxTokens}
        onText={(text) => onChange({ ...asked, maxTokens: Math.max(1, Number(text)) })}
      />
      <LabelledField
        {...number}
        label="Temperature"
        step={0.1}
        value={asked.temperature}
        onText={(text) => onChange({ ...asked, temperature: Number(text) })}
      />
      <LabelledField
        {...number}
        label="Seed"
        value={asked.seed}
        onText={(seed) => onChange({ ...asked, seed })}
      />
    </>
  );
};

export function PlaygroundPage(): JSX.Element {
  const { value: models, error } = useLoaded(
    offered,
    'models',
    () => 3000, // a promoted name is served a moment later
  );
  const [left, setLeft] = useState<string | null>(null);
  const [right, setRight] = useState<string | null>(null);
  const [system, setSystem] = useState('');
  const [prompt, setPrompt] = useState('');
  const [asked, setAsked] = useState<Asked>({ maxTokens: 256, temperature: 0, seed: '' });
  const [turns, setTurns] = useState<readonly Turn[]>([]);
  const [running, setRunning] = useState<AbortController | null>(null);
  const box = useRef<HTMLTextAreaElement>(null);
  const base = models?.find(({ parent }) => parent === null)?.id ?? '';
  const sides = [
    ...new Set([left ?? base, right ?? models?.find(({ parent }) => parent !== null)?.id ?? base]),
  ];

  const begin = async (event?: Event): Promise<void> => {
    event?.preventDefault();
    if (prompt.trim() === '' || running !== null) return;
    const ending = new AbortController();
    setRunning(ending);
    const before = turns;
    const answers = Object.fromEntries(sides.map((side) => [side, NOTHING]));
    let turn: Turn = { user: prompt, answers };
    setTurns([...before, turn]);
    setPrompt('');
    const history = (side: string): Message[] => [
      ...(system === '' ? [] : [{ role: 'system' as const, content: system }]),
      ...before.flatMap(({ user, answers }) =>
        answers[side] === undefined
          ? []
          : [
              { role: 'user' as const, content: user },
              { role: 'assistant' as const, content: answers[side]!.text },
            ],
      ),
      { role: 'user' as const, content: turn.user },
    ];
    await Promise.all(
      sides.map((side) =>
        ask(side, history(side), asked, ending.signal, (answer) => {
          turn = { ...turn, answers: { ...turn.answers, [side]: answer } };
          setTurns([...before, turn]);
        }),
      ),
    );
    setRunning(null);
    box.current?.focus();
  };
  const select = (label: string, value: string, set: (name: string) => void): JSX.Element => (
    <LabelledField label={label}>
      <Select
        label={label}
        value={value}
        options={(models ?? []).map(({ id }) => [id, id] as const)}
        onPick={set}
      />
    </LabelledField>
  );
  if (error !== null) return <Fault error={error} />;
  if (models === null) return <Waiting what="Listing the models" />;
  return (
    <>
      <PageHead title="Playground">
        <p class="lead">
          Send one prompt to the base model and to an adapter, and compare their replies.
        </p>
      </PageHead>
      <form class="panel" onSubmit={(event) => void begin(event)}>
        <div class="fields">
          {select('Left', sides[0]!, setLeft)}
          {select('Right', right ?? sides.at(-1)!, setRight)}
          <Options asked={asked} onChange={setAsked} />
        </div>
        <LabelledField label="System prompt" value={system} onText={setSystem} placeholder="none" />
        <LabelledField label="Prompt">
          <textarea
            ref={box}
            rows={4}
            value={prompt}
            onInput={(event) => setPrompt(event.currentTarget.value)}
            onKeyDown={(event) => {
              if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) void begin(event);
            }}
            placeholder="press Ctrl+Enter to send"
          />
        </LabelledField>
        <div class="actions">
          <button type="submit" class="primary" disabled={running !== null || prompt.trim() === ''}>
            Send
          </button>
          <button type="button" disabled={running === null} onClick={() => running?.abort()}>
            Stop
          </button>
          <button
            type="button"
            disabled={running !== null || turns.length === 0}
            onClick={() => setTurns([])}
          >
            Start over
          </button>
        </div>
      </form>
      {turns.map((turn, i) => (
        <TurnShown
          key={i}
          turn={turn}
          number={i + 1}
          busy={running !== null && i === turns.length - 1}
        />
      ))}
    </>
  );
}
