/** Why prompts that a renderer wrote are not those that it writes now. */

export interface RendererIds {
  readonly rendererId: string;
  /** Before it was corrected; null where that changed nothing. */
  readonly formerRendererId: string | null;
}

const short = (id: string): string => `${id.slice(0, 12)}…`;

/** null: prompts of then are those of now. @param before the id that was written down then */
export function rendererChange(
  before: string,
  { rendererId, formerRendererId }: RendererIds,
): string | null {
  if (before === rendererId) return null;
  return before === formerRendererId
    ? `its prompts were rendered by an earlier version of isopro-native (${short(before)}), which has since been corrected: it now renders ` +
        `the model's chat template as jinja2 does (${short(rendererId)}), with different prompts`
    : `its prompts were rendered by ${short(before)}, but the model's renderer is ${short(rendererId)}`;
}
