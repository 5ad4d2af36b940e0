/** Light, dark, or as the system has it. */

export type Theme = 'auto' | 'light' | 'dark';
const PLACE = 'isopro-theme';
const listeners = new Set<() => void>();
const system = matchMedia('(prefers-color-scheme: dark)');
system.addEventListener('change', () => tell());

function tell(): void {
  for (const listener of listeners) listener();
}

export function readTheme(): Theme {
  const kept = localStorage.getItem(PLACE);
  return kept === 'light' || kept === 'dark' ? kept : 'auto';
}

export function applyTheme(theme: Theme): void {
  if (theme === 'auto') localStorage.removeItem(PLACE);
  else localStorage.setItem(PLACE, theme);
  if (theme === 'auto') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  tell();
}

/** Called whenever colours have changed; gives what ends that. */
export function onTheme(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}
