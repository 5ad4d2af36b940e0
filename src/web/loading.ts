/** What a page waits for. */
import { useCallback, useEffect, useRef, useState } from 'preact/hooks';

export interface Loaded<T> {
  readonly value: T | null;
  readonly error: Error | null;
  readonly reload: () => void;
}

/**
 * Loads when the key changes, and again and again where a pause is given: what was there stays
 * while the next comes.
 * @param pauseMs of the value that is there; null: not again
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
      // nobody looks: once it is seen again is soon enough
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
