/** Arguments of a call by the names of its parameters. */
import { TemplateError } from './failures.js';
import type { Given, Value } from './values.js';

/** One value a parameter; undefined where it was left out. @throws TemplateError */
export function bound(
  what: string,
  parameters: readonly string[],
  { positional, keywords }: Given,
): (Value | undefined)[] {
  if (positional.length > parameters.length)
    throw new TemplateError(
      `${what} takes at most ${parameters.length} arguments, not ${positional.length}`,
    );
  for (const name of keywords.keys()) {
    const at = parameters.indexOf(name);
    if (at < 0) throw new TemplateError(`${what} has no parameter ${JSON.stringify(name)}`);
    if (at < positional.length)
      throw new TemplateError(`${what} got its parameter ${JSON.stringify(name)} twice`);
  }
  return parameters.map((name, i) => (i < positional.length ? positional[i] : keywords.get(name)));
}
