/** The public API of isopro-native. Anything that is not exported here may change without notice. */
export { ERRORS, IsoproError, type ErrorCode } from './errors.js';
export { deriveSeed, Random, splitmix64, type DrawKey } from './random.js';
export { loadModel, type HiddenNorms, type HiddenRequest, type HiddenRows, type LoadModelOptions, type Model } from './engine/model.js';
export type { Adapter } from './engine/adapter.js';
export type { GenerationProgress } from './engine/addon.js';
export type { GenerateRequest, Prompt, SamplingSettings, TokenIds } from './engine/generate-request.js';
export type { CapturedBoundary, Rollout } from './engine/generation.js';
export type { ChatMessage, RenderedPrompt } from './engine/prompt-renderer.js';
