/** The setting that says who decides: its words, and what they name. */
import path from 'node:path';
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
  'NAME is local (the base model), adapted (with the adapter in training), or another model';

/** Reads the setting; null if it names nobody. */
export function readPolicySetting(text: string): PolicySetting | null {
  const word = WORDS.find((each) => each === text);
  if (word !== undefined) return { kind: word };
  const model = /^model:(.+)$/s.exec(text)?.[1];
  return model === undefined ? null : { kind: 'model', model };
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
