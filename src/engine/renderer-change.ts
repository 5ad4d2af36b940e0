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
    ? `its prompts were written by the renderer of isopro-native before it was corrected (${short(before)}), which now renders the ` +
        `model's chat template as jinja2 does (${short(rendererId)}) and writes other prompts`
    : `its prompts were written by the renderer ${short(before)}, and the model's is ${short(rendererId)}`;
}
