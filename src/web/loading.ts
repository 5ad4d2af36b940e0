/** What a page loads, and what it asks the server to do. */
import { useCallback, useEffect, useRef, useState } from 'preact/hooks';

export interface Loaded<T> {
  readonly value: T | null;
  readonly error: Error | null;
  readonly reload: () => void;
}

/**
 * Loads when the key changes, and repeatedly if there is a pause: the old value stays until the
 * next one arrives.
 * @param pauseMs until the next load, given the value that is there; null: do not load again
 */
export function useLoaded<T>(
  load: (signal: AbortSignal, before: T | null) => Promise<T>,
  key: string,
  pauseMs: (value: T | null) => number | null = () => null,
): Loaded<T> {
  const [state, setState] = useState<{ key: string; value: T | null; error: Error | null }>({
    key,
    value: null,
    error: null,
  });
  const [round, setRound] = useState(0);
  const latest = useRef(state);
  latest.current = state;
  useEffect(() => {
    const left = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const again = async (): Promise<void> => {
      const before = latest.current.key === key ? latest.current.value : null;
      let pause: number | null;
      try {
        const value = await load(left.signal, before);
        if (left.signal.aborted) return;
        if (value !== before || latest.current.error !== null)
          setState({ key, value, error: null });
        pause = pauseMs(value);
      } catch (error) {
        if (left.signal.aborted) return;
        setState({ key, value: before, error: error as Error });
        pause = pauseMs(before);
      }
      // a hidden page loads less often
      if (pause !== null)
        timer = setTimeout(() => void again(), document.hidden ? pause * 5 : pause);
    };
    void again();
    return () => {
      left.abort();
      clearTimeout(timer);
    };
  }, [key, round]);
  const reload = useCallback(() => setRound((before) => before + 1), []);
  return state.key === key
    ? { value: state.value, error: state.error, reload }
    : { value: null, error: null, reload };
}

/** Runs one action at a time: whether it runs, what went wrong, and a way to start it. */
export function useAction(): {
  readonly busy: boolean;
  readonly error: Error | null;
  readonly run: (work: () => Promise<unknown>) => (event?: Event) => Promise<void>;
} {
  const [state, setState] = useState<{ busy: boolean; error: Error | null }>({
    busy: false,
    error: null,
  });
  const run = (work: () => Promise<unknown>) => async (event?: Event) => {
    event?.preventDefault();
    setState({ busy: true, error: null });
    const error = await work().then(
      () => null,
      (cause: Error) => cause,
    );
    setState({ busy: false, error });
  };
  return { ...state, run };
}
