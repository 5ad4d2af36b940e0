import type { JSX } from 'preact';
import { useEffect } from 'preact/hooks';
import { get, type RunLine } from '../api.ts';
import { useLoaded } from '../loading.ts';
import { go } from '../router.ts';
import { PageHead, Waiting } from '../ui.tsx';

/** Waits for an unfinished run, and opens it. */
export function LatestPage(): JSX.Element {
  const { value: runs } = useLoaded(
    (signal) => get<RunLine[]>('/api/runs', signal),
    'latest',
    () => 500,
  );
  const found = runs?.find(({ state }) => state === 'unfinished')?.name;
  useEffect(() => {
    if (found !== undefined) go(['runs', found], {}, true);
  }, [found]);
  return (
    <>
      <PageHead title="The run is starting" />
      <Waiting what="Waiting for its first record" />
    </>
  );
}
