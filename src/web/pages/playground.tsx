import type { JSX } from 'preact';
import { useRef, useState } from 'preact/hooks';
import type { AdaptersAnswer, Status } from '../../server/page/shapes.js';
import { events, get } from '../api.ts';
import { duration, plural } from '../format.ts';
import { useLoaded } from '../loading.ts';
import { Excerpt, Fault, PageHead, Waiting } from '../ui.tsx';

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
 * What answers: the models of the server, and published adapters of its base for which no name
 * stands, by names of their own.
 */
async function offered(signal: AbortSignal): Promise<readonly Pick<Model, 'id' | 'parent'>[]> {
  const { data } = await get<{ data: readonly Model[] }>('/v1/models', signal);
  const { registry, modelSha256 } = await get<Status>('/api/status', signal);
  if (!registry) return data;
  // whose key may not read the registry has the models alone
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

/** One reply, told as it grows. */
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
      ...(asked.seed === '' ? {} : { seed: Number(asked.seed) }),
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
    if (!signal.aborted) answer = { ...answer, error: (cause as Error).message };
    else answer = { ...answer, finish: 'stopped' };
  }
  answer = { ...answer, seconds: (performance.now() - begun) / 1000 };
  tell(answer);
  return answer;
}

const Reply = ({
  model,
  answer,
  busy,
}: {
  model: string;
  answer: Answer;
  busy: boolean;
}): JSX.Element => (
  <div class="answer-side">
    <h3>{model}</h3>
    <Excerpt aria-live="polite" aria-busy={busy} label={`reply of ${model}`}>
      {answer.text}
      {busy && <span class="cursor" aria-hidden="true" />}
    </Excerpt>
    {answer.error !== null && <p class="fault">{answer.error}</p>}
    <p class="note">
      {answer.seconds === null
        ? '\u00a0'
        : [
            ...(answer.tokens === null ? [] : [plural(answer.tokens, 'token')]),
            duration(answer.seconds),
            ...(answer.tokens === null || answer.seconds < 0.01
              ? []
              : [`${(answer.tokens / answer.seconds).toFixed(1)} a second`]),
            ...(answer.finish === null ? [] : [`ended by ${answer.finish}`]),
          ].join(' · ')}
    </p>
  </div>
);

interface Turn {
  readonly user: string;
  readonly answers: Readonly<Record<string, Answer>>;
}

export function PlaygroundPage(): JSX.Element {
  const { value: models, error } = useLoaded(
    offered,
    'models',
    () => 3000, // a name that is promoted is served a moment later
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
    let turn: Turn = {
      user: prompt,
      answers: Object.fromEntries(sides.map((side) => [side, NOTHING])),
    };
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
    <label class="field">
      <span>{label}</span>
      <select value={value} onChange={(event) => set(event.currentTarget.value)}>
        {models?.map(({ id }) => (
          <option key={id} value={id}>
            {id}
          </option>
        ))}
      </select>
    </label>
  );
  const number = (
    label: string,
    value: string,
    set: (text: string) => void,
    step = '1',
  ): JSX.Element => (
    <label class="field short">
      <span>{label}</span>
      <input
        type="number"
        min="0"
        step={step}
        value={value}
        onInput={(event) => set(event.currentTarget.value)}
      />
    </label>
  );
  if (error !== null) return <Fault error={error} />;
  if (models === null) return <Waiting what="Asking which models there are" />;
  return (
    <>
      <PageHead title="Playground">
        <p class="lead">The same prompt to the base and to an adapter, side by side.</p>
      </PageHead>
      <form class="panel" onSubmit={(event) => void begin(event)}>
        <div class="fields">
          {select('Left', sides[0]!, setLeft)}
          {select('Right', right ?? sides.at(-1)!, setRight)}
          {number('Most tokens', String(asked.maxTokens), (text) =>
            setAsked({ ...asked, maxTokens: Math.max(1, Number(text)) }),
          )}
          {number(
            'Temperature',
            String(asked.temperature),
            (text) => setAsked({ ...asked, temperature: Number(text) }),
            '0.1',
          )}
          {number('Seed', asked.seed, (text) => setAsked({ ...asked, seed: text }))}
        </div>
        <label class="field">
          <span>System prompt</span>
          <input
            value={system}
            onInput={(event) => setSystem(event.currentTarget.value)}
            placeholder="none"
          />
        </label>
        <label class="field">
          <span>Prompt</span>
          <textarea
            ref={box}
            rows={4}
            value={prompt}
            onInput={(event) => setPrompt(event.currentTarget.value)}
            onKeyDown={(event) => {
              if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) void begin(event);
            }}
            placeholder="Ctrl Enter sends it"
          />
        </label>
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
            Begin anew
          </button>
        </div>
      </form>
      {turns.map((turn, i) => (
        <section key={i} class="turn" aria-label={`turn ${i + 1}`}>
          <pre class="user">{turn.user}</pre>
          <div class="two">
            {Object.entries(turn.answers).map(([side, answer]) => (
              <Reply
                key={side}
                model={side}
                answer={answer}
                busy={running !== null && i === turns.length - 1 && answer.seconds === null}
              />
            ))}
          </div>
        </section>
      ))}
    </>
  );
}
