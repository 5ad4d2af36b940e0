/** The setting that says who decides: its words, and what they name. */
import path from 'node:path';
import { backendKind } from '../backends/names.js';
import { didYouMean } from '../nearest.js';

/** What a policy's setting names. */
export type PolicySetting =
  | { readonly kind: 'scripted' | 'observe' | 'random' | 'table' | 'human' }
  /** `local`: the run's base model; `adapted`: with the adapter in training; else another model. */
  | { readonly kind: 'model'; readonly model: string };

/** Names of the model that the run trains: without and with what it has learned. */
export const OWN_MODELS: readonly string[] = ['local', 'adapted'];

const WORDS = ['scripted', 'observe', 'random', 'table', 'human'] as const;

export const POLICY_HELP =
  'who answers a rule that fires: scripted (the playbook), observe (log only), random, table, human, or model:NAME; ' +
  'NAME is local (the base model), adapted (with the adapter in training), another model, ' +
  'or a service as --backend names it (openai:MODEL, URL#MODEL, …)';

/** Reads the setting; null if it names nobody. */
export function readPolicySetting(text: string): PolicySetting | null {
  const word = WORDS.find((each) => each === text);
  if (word !== undefined) return { kind: word };
  const model = /^model:(.+)$/s.exec(text)?.[1];
  return model === undefined ? null : { kind: 'model', model };
}

/** The back end that decides by the setting, as `--backend` names it; null: none is named. */
export function decidingBackend(text: string): string | null {
  const setting = readPolicySetting(text);
  if (setting?.kind !== 'model') return null;
  const kind = backendKind(setting.model);
  return kind === null || kind === 'local' || kind === 'human' ? null : setting.model;
}

/** Why a text is no policy, or null. */
export const policyObjection = (text: string): string | null =>
  readPolicySetting(text) !== null
    ? null
    : `expected ${WORDS.join(', ')} or model:NAME${didYouMean(text, WORDS)}`;

/** The setting without a folder of this machine, as manifests and logs have it. */
export function namedPolicy(text: string): string {
  const setting = readPolicySetting(text);
  return setting?.kind === 'model' ? `model:${path.basename(setting.model)}` : text;
}
