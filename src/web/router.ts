/**
 * Routes in the part of the address after `#`: the server has one page, and every place can be
 * linked to.
 */
import { useEffect, useState } from 'preact/hooks';
import { query } from './api.ts';

export interface Place {
  readonly path: readonly string[];
  readonly params: Readonly<Record<string, string>>;
}

export function placeOf(hash: string): Place {
  const [path = '', search = ''] = hash.replace(/^#\/?/, '').split('?');
  const parts = path.split('/').filter(Boolean);
  const readable = (text: string): string => {
    try {
      return decodeURIComponent(text);
    } catch {
      return text;
    }
  };
  return { path: parts.map(readable), params: Object.fromEntries(new URLSearchParams(search)) };
}

type Params = Readonly<Record<string, string | number | undefined>>;

export const href = (path: readonly string[], params: Params = {}): string =>
  `#/${path.map(encodeURIComponent).join('/')}${query(params)}`;

export function go(path: readonly string[], params: Params = {}, replace = false): void {
  if (replace) {
    history.replaceState(null, '', href(path, params));
    dispatchEvent(new HashChangeEvent('hashchange'));
  } else location.hash = href(path, params);
}

export function usePlace(): Place {
  const [place, setPlace] = useState(() => placeOf(location.hash));
  useEffect(() => {
    const moved = (): void => setPlace(placeOf(location.hash));
    addEventListener('hashchange', moved);
    return () => removeEventListener('hashchange', moved);
  }, []);
  return place;
}

/** Calls an action by its key, unless the key goes into a field or has a modifier. */
export function useKeys(actions: Readonly<Record<string, () => void>>): void {
  useEffect(() => {
    const pressed = (event: KeyboardEvent): void => {
      const { key, ctrlKey, metaKey, altKey, target } = event;
      const isTyped = /^(INPUT|TEXTAREA|SELECT)$/.test((target as Element).tagName);
      if (actions[key] === undefined || isTyped || ctrlKey || metaKey || altKey) return;
      event.preventDefault();
      actions[key]();
    };
    addEventListener('keydown', pressed);
    return () => removeEventListener('keydown', pressed);
  });
}
