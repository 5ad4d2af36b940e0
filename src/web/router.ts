/**
 * Where one is: the part of the address after `#`, so that the server knows one page and every
 * place can be linked to.
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

export const href = (
  path: readonly string[],
  params: Readonly<Record<string, string | number | undefined>> = {},
): string => `#/${path.map(encodeURIComponent).join('/')}${query(params)}`;

export function go(
  path: readonly string[],
  params: Readonly<Record<string, string | number | undefined>> = {},
  replace = false,
): void {
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
