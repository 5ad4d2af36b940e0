/** Explanation of why earlier prompts differ from those that the renderer writes now. */

export interface RendererIds {
  readonly rendererId: string;
  /** Id before the renderer was corrected; null if that changed nothing. */
  readonly formerRendererId: string | null;
}

const short = (id: string): string => `${id.slice(0, 12)}…`;

/** Returns why earlier prompts differ, or null if they do not. @param before the recorded id */
export function rendererChange(
  before: string,
  { rendererId, formerRendererId }: RendererIds,
): string | null {
  if (before === rendererId) return null;
  return before === formerRendererId
    ? `its prompts were rendered by an earlier version of isopro-native (${short(before)}), which has since been ` +
        `corrected: it now renders ` +
        `the model's chat template as jinja2 does (${short(rendererId)}), with different prompts`
    : `its prompts were rendered by ${short(before)}, but the model's renderer is ${short(rendererId)}`;
}
