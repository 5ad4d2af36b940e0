/**
 * `isopro-native/ai`: models of this process for the AI SDK (its specification v3, which `ai` 6
 * has).
 */
import '../bundler-check.js';

export {
  createIsopro,
  type IsoproModelSettings,
  type IsoproProvider,
  type IsoproProviderOptions,
} from './provider.js';
