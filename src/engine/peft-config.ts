/**
 * adapter_config.json of PEFT's LoRA: what each member means here, and which values make an adapter
 * that is no plain one.
 */
import { readFile, stat } from 'node:fs/promises';
import { z } from 'zod';
import { dictionary, ownValue, type Dictionary } from '../dictionary.js';
import { dictionaryOf } from '../dictionary-schema.js';
import { IsoproError } from '../errors.js';
import { requireFile, unreadable } from '../files.js';
import { given } from '../given.js';

/**
 * Followed: read by the schema below. Without effect, whatever it says. Else: whether a value
 * changes nothing.
 */
type Meaning = 'followed' | 'without effect' | ((value: unknown) => boolean);

const isNull = (value: unknown): boolean => value === null;
const isFalse = (value: unknown): boolean => value === null || value === false;
const isEmpty = (value: unknown): boolean =>
  value === null ||
  (typeof value === 'object' && Object.keys(value as object).length === 0) ||
  value === '';

/**
 * How the factors began: these leave the base as it was; others, such as pissa, change it, and the
 * factors stand on that.
 */
const KEEPS_BASE: readonly unknown[] = [null, true, false, 'gaussian', 'eva', 'orthogonal'];

/** All members of LoraConfig in PEFT 0.21.2, and those that earlier releases wrote. */
export const PEFT_MEMBERS: Dictionary<Meaning> = dictionary(
  (
    [
      ['followed', 'peft_type base_model_name_or_path r lora_alpha'],
      ['followed', 'rank_pattern alpha_pattern use_rslora alora_invocation_tokens'],
      ['without effect', 'task_type auto_mapping peft_version revision inference_mode'],
      // which modules are adapted say the factors
      ['without effect', 'target_modules exclude_modules layers_to_transform layers_pattern'],
      // while it was trained; of use_qalora; of megatron_config; where it is computed
      ['without effect', 'lora_dropout eva_config qalora_group_size megatron_core runtime_config'],
      ['without effect', 'merge_weights'],
      [(value) => KEEPS_BASE.includes(value), 'init_lora_weights'],
      [(value) => value === null || value === 'none', 'bias'],
      [isFalse, 'fan_in_fan_out use_bdlora use_dora use_qalora lora_bias ensure_weight_tying'],
      [isEmpty, 'modules_to_save trainable_token_indices target_parameters layer_replication'],
      [isEmpty, 'megatron_config loftq_config corda_config lora_ga_config enable_lora'],
      [isNull, 'velora_config monteclora_config arrow_config kasa_config'],
    ] as const satisfies readonly (readonly [Meaning, string])[]
  ).flatMap(([meaning, names]) => names.split(' ').map((name) => [name, meaning] as const)),
);

/** A member that is not known: what a newer PEFT writes for nothing is nothing. */
const isNothing = (value: unknown): boolean => value === false || isEmpty(value);

const positive = z.number().positive();
const schema = z.object({
  peft_type: z.literal('LORA'),
  base_model_name_or_path: z.string().nullish(),
  r: z.int().positive(),
  lora_alpha: positive,
  rank_pattern: dictionaryOf(z.int().positive()).nullish(),
  alpha_pattern: dictionaryOf(positive).nullish(),
  use_rslora: z.boolean().nullish(),
  alora_invocation_tokens: z
    .array(
      z
        .int()
        .min(0)
        .max(2 ** 31 - 1),
    )
    .min(1)
    .max(256)
    .nullish(),
});

/** Values of modules by their names; the first that matches counts. */
export type ModuleValues = readonly (readonly [name: RegExp, value: number])[];

export interface PeftConfig {
  readonly baseName: string;
  readonly rank: number;
  readonly alpha: number;
  readonly ranks: ModuleValues;
  readonly alphas: ModuleValues;
  /** Scales are alpha / sqrt(rank). */
  readonly stabilised: boolean;
  /** Tokens from which the adapter acts on; empty: it acts on every token. */
  readonly invocationTokens: readonly number[];
}

const LARGEST_CONFIG = 1 << 20;
/**
 * PEFT's keys are regular expressions: of these, names of a module or its end, whose points stand
 * for any character.
 */
const NAME = /^\^?(?:[\w-]|\\?\.)+\$?$/;

const isName = (key: string): boolean => NAME.test(key);

const moduleValues = (values: Dictionary<number> | null | undefined): ModuleValues =>
  Object.entries(values ?? {}).map(([key, value]) => [
    new RegExp(`^(?:.*\\.)?(?:${key})$`, 'u'),
    value,
  ]);

/**
 * @param name as layers.3.mlp.up_proj
 * @param otherwise the value of modules that no name matches
 */
export const moduleValue = (values: ModuleValues, name: string, otherwise: number): number =>
  values.find(([pattern]) => pattern.test(`model.${name}`))?.[1] ?? otherwise;

const REMEDY =
  'Only plain LoRA is supported. Convert the adapter with PEFT if PEFT can do it (`path_initial_model_for_weight_conversion` of ' +
  '`save_pretrained` for PiSSA, OLoRA and CorDA), or merge it into its base with PEFT and convert the model.';
const SHOWN_CHARACTERS = 60;

/** Members that make another function of the factors than s B A. */
function refusals(value: object): string[] {
  return Object.entries(value).flatMap(([name, member]) => {
    const meaning = ownValue(PEFT_MEMBERS, name) ?? isNothing;
    if (typeof meaning === 'string' || meaning(member)) return [];
    const unknown = Object.hasOwn(PEFT_MEMBERS, name) ? '' : ', which is unknown';
    return [
      `${name.slice(0, SHOWN_CHARACTERS)} is ${JSON.stringify(member).slice(0, SHOWN_CHARACTERS)}${unknown}`,
    ];
  });
}

/**
 * @throws IsoproError MODEL_NOT_FOUND, FILE_UNREADABLE, ADAPTER_CORRUPT naming each member that is
 *   wrong or not followed
 */
export async function readPeftConfig(file: string): Promise<PeftConfig> {
  requireFile(file, 'MODEL_NOT_FOUND');
  const status = await stat(file);
  if (status.size > LARGEST_CONFIG)
    throw new IsoproError('ADAPTER_CORRUPT', `${file} is not the configuration of an adapter`);
  const text = await readFile(file, 'utf8').catch((cause: unknown) => {
    throw unreadable(file, cause);
  });
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw new IsoproError('ADAPTER_CORRUPT', `${file} is not JSON`, { cause });
  }
  const parsed = schema.safeParse(value);
  const wrong = parsed.success
    ? []
    : parsed.error.issues.map((issue) => `${issue.path.join('.')}: ${issue.message}`);
  const others = typeof value === 'object' && value !== null ? refusals(value) : [];
  const keys = parsed.success
    ? Object.keys({ ...parsed.data.rank_pattern, ...parsed.data.alpha_pattern })
    : [];
  const patterns = keys
    .filter((key) => !isName(key))
    .map(
      (key) =>
        `rank_pattern or alpha_pattern has ${JSON.stringify(key.slice(0, SHOWN_CHARACTERS))}, an unsupported expression`,
    );
  if (parsed.success && others.length + patterns.length === 0) {
    const {
      base_model_name_or_path: base,
      r: rank,
      lora_alpha: alpha,
      rank_pattern: ranks,
      alpha_pattern: alphas,
      use_rslora: root,
      alora_invocation_tokens: invocation,
    } = parsed.data;
    return {
      baseName: base ?? '',
      rank,
      alpha,
      ranks: moduleValues(ranks),
      alphas: moduleValues(alphas),
      stabilised: root === true,
      invocationTokens: invocation ?? [],
    };
  }
  throw new IsoproError(
    'ADAPTER_CORRUPT',
    `${file} does not describe a plain LoRA adapter: ${[...wrong, ...others, ...patterns].join('; ')}`,
    given({
      remedy: others.length + patterns.length > 0 ? REMEDY : undefined,
      cause: parsed.error,
    }),
  );
}
