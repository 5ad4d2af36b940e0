/** Frame of the page: navigation, and the page of the current address. */
import { render, type FunctionComponent, type JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { get, hasKey, setKey, takeKey, type Status } from './api.ts';
import { megabytes } from './format.ts';
import { useLoaded } from './loading.ts';
import { AdaptersPage } from './pages/adapters.tsx';
import { ComparePage } from './pages/compare.tsx';
import { JobPage } from './pages/job.tsx';
import { JobsPage } from './pages/jobs.tsx';
import { LatestPage } from './pages/latest.tsx';
import { NewJobPage } from './pages/new-job.tsx';
import { PlaygroundPage } from './pages/playground.tsx';
import { RolloutPage } from './pages/rollout.tsx';
import { RolloutsPage } from './pages/rollouts.tsx';
import { RunPage } from './pages/run.tsx';
import { RunsPage } from './pages/runs.tsx';
import { TrajectoryPage, TruthPage, TruthsPage } from './pages/truth.tsx';
import { href, usePlace, type Place } from './router.ts';
import './style.css';
import { applyTheme, readTheme, type Theme } from './theme.ts';
import { Empty, PageHead } from './ui.tsx';

const PLACES = [
  ['runs', 'Runs'],
  ['new', 'Start'],
  ['jobs', 'Jobs'],
  ['truth', 'Truth'],
  ['adapters', 'Adapters'],
  ['play', 'Playground'],
] as const;

const Shown: FunctionComponent<Place> = ({ path, params }) => {
  const [room = 'runs', one, what, which] = path;
  switch (room) {
    case 'runs':
      if (one === undefined) return <RunsPage />;
      if (what === undefined) return <RunPage name={one} />;
      if (what !== 'rollouts') break;
      return which === undefined ? (
        <RolloutsPage run={one} params={params} />
      ) : (
        <RolloutPage run={one} id={Number(which)} params={params} />
      );
    case 'truth':
      if (one === undefined) return <TruthsPage />;
      return what === undefined ? <TruthPage name={one} /> : <TrajectoryPage run={one} id={what} />;
    case 'jobs':
      return one === undefined ? <JobsPage /> : <JobPage id={one} />;
    case 'latest':
      return <LatestPage />;
    case 'compare':
      return <ComparePage params={params} />;
    case 'new':
      return <NewJobPage params={params} />;
    case 'adapters':
      return <AdaptersPage />;
    case 'play':
      return <PlaygroundPage />;
  }
  return (
    <>
      <PageHead title="Page not found" />
      <Empty title="There is no such page.">
        <a href={href(['runs'])}>All runs</a>
      </Empty>
    </>
  );
};

const THEMES: Readonly<Record<Theme, readonly [next: Theme, sign: string]>> = {
  auto: ['light', '◐'],
  light: ['dark', '☀'],
  dark: ['auto', '☾'],
};

function ThemeButton(): JSX.Element {
  const [theme, setTheme] = useState(readTheme);
  const [next, sign] = THEMES[theme];
  const turn = (): void => {
    applyTheme(next);
    setTheme(next);
  };
  return (
    <button
      type="button"
      class="quiet theme"
      onClick={turn}
      aria-label={`colours: ${theme}; change to ${next}`}
      title={`colours: ${theme}`}
    >
      <span aria-hidden="true">{sign}</span>
    </button>
  );
}

function ServerLine(): JSX.Element | null {
  const { value, error } = useLoaded(
    (signal) => get<Status>('/api/status', signal),
    'status',
    () => 5000,
  );
  if (error !== null) return <span class="server bad">server unreachable</span>;
  if (value === null) return null;
  return (
    <span
      class="server"
      title={`isopro-native ${value.version}, ${megabytes(value.rssBytes)} resident`}
    >
      <span class="dot" aria-hidden="true" />
      <span class="server-model">{value.model}</span>
      <span class="muted">{megabytes(value.rssBytes)}</span>
    </span>
  );
}

const Login: FunctionComponent<{ onKey: () => void }> = ({ onKey }) => {
  const [key, set] = useState('');
  const enter = (event: Event): void => {
    event.preventDefault();
    setKey(key);
    onKey();
  };
  return (
    <main class="login">
      <form onSubmit={enter}>
        <Mark />
        <h1>A key is needed</h1>
        <p class="muted">
          The server printed a key when it started. The address that <code>isopro-native ui</code>{' '}
          prints contains it.
        </p>
        <label for="key">Key</label>
        <input
          id="key"
          type="password"
          autocomplete="off"
          value={key}
          onInput={(event) => set(event.currentTarget.value)}
          required
        />
        <button type="submit" class="primary">
          Open
        </button>
      </form>
    </main>
  );
};

const Mark = (): JSX.Element => (
  <svg class="mark" viewBox="0 0 32 32" aria-hidden="true">
    <rect width="32" height="32" rx="8" />
    <path d="M7 22 L13 15 L18 18.5 L25 9" />
    <circle cx="25" cy="9" r="2.6" />
  </svg>
);

function App(): JSX.Element {
  const place = usePlace();
  const [open, setOpen] = useState(hasKey);
  useEffect(() => {
    const locked = (): void => {
      setKey(null);
      setOpen(false);
    };
    addEventListener('isopro-locked', locked);
    return () => removeEventListener('isopro-locked', locked);
  }, []);
  useEffect(() => scrollTo(0, 0), [place.path.join('/')]);
  if (!open) return <Login onKey={() => setOpen(true)} />;
  const room = place.path[0] ?? 'runs';
  const lit = room === 'compare' ? 'runs' : room;
  return (
    <>
      {/* biome-ignore lint/a11y/useValidAnchor: a link whose hash would name a page to the router */}
      <a
        class="skip"
        href="#content"
        onClick={(event) => {
          event.preventDefault();
          document.getElementById('content')?.focus();
        }}
      >
        Skip to content
      </a>
      <header class="bar">
        <a class="brand" href={href(['runs'])} aria-label="isopro-native, all runs">
          <Mark />
          <span>isopro</span>
        </a>
        <nav aria-label="pages">
          {PLACES.map(([path, name]) => (
            <a key={path} href={href([path])} aria-current={lit === path ? 'page' : undefined}>
              {name}
            </a>
          ))}
        </nav>
        <ServerLine />
        <ThemeButton />
      </header>
      <main id="content" tabIndex={-1}>
        <Shown key={place.path.join('/')} {...place} />
      </main>
    </>
  );
}

applyTheme(readTheme());
takeKey();
// the address that `ui` prints was opened again in this tab
addEventListener('hashchange', () => {
  if (!location.hash.startsWith('#token=')) return;
  takeKey();
  location.reload();
});
render(<App />, document.getElementById('app')!);
