/**
 * What a scenario is as data: a JSON document, checked once, and the digest that every score refers
 * to.
 */
import { hash } from 'node:crypto';
import { z } from 'zod';
import { asJson, canonicalJson } from '../../canonical-json.js';
import { IsoproError } from '../../errors.js';
import { GENERATOR_NAMES } from './generators.js';

const name = z
  .string()
  .regex(
    /^[a-z][a-z0-9_]{0,31}$/,
    'must start with a lower-case letter and have at most 32 lower-case letters, digits and underscores',
  );
/** So small that no sum or product of what a document may hold leaves the range of a double. */
const figure = z.number().min(-1e6).max(1e6);
const text = z.string().max(4_000);
const range = { low: figure, high: figure };
const ordered = { message: 'low is above high' };

/**
 * `weight` times the product of the named values: at most one parameter among them, so that a
 * component is affine in each parameter.
 */
const term = z.strictObject({ weight: figure, of: z.array(name).max(3) });

const content = z.strictObject({
  id: z.string().regex(/^[a-z][a-z0-9_-]{0,31}$/),
  version: z.string().min(1).max(20),
  title: z.string().min(1).max(120),
  generator: z.strictObject({
    name: z.enum(GENERATOR_NAMES),
    /**
     * `restarts`: the noise is drawn from a generator of the seed's own; `continues`: from the one
     * that drew the environment.
     */
    noise: z.enum(['restarts', 'continues']),
  }),
  texts: z.strictObject({
    /** The whole prompt. */
    prompt: text.optional(),
    description: text.optional(),
    rules: text.optional(),
    response: text.optional(),
    evaluation: text.optional(),
  }),
  /** Drawn in order; the prompt tells each one. */
  environment: z
    .array(
      z
        .strictObject({
          name,
          ...range,
          kind: z.enum(['real', 'integer']),
          decimals: z.int().min(0).max(6),
        })
        .refine(({ low, high }) => low <= high, ordered),
    )
    .max(8),
  parameters: z
    .array(z.strictObject({ name, ...range }).refine(({ low, high }) => low <= high, ordered))
    .min(1)
    .max(8),
  constraints: z
    .array(
      z.strictObject({
        terms: z
          .array(z.strictObject({ weight: figure, of: name }))
          .min(1)
          .max(8),
        atMost: figure,
      }),
    )
    .max(8),
  /** Each is clamped to [0, 1]; noise is drawn in order. */
  components: z
    .array(
      z.strictObject({
        name,
        weight: figure,
        constant: figure,
        terms: z.array(term).max(16),
        noise: z
          .strictObject(range)
          .refine(({ low, high }) => low <= high, ordered)
          .optional(),
      }),
    )
    .min(1)
    .max(8),
  score: z.strictObject({
    /** Added to the weighted sum of the components; the result is clamped to [0, 1]. */
    offset: figure,
    decimals: z.int().min(1).max(12),
    /** From this score on an answer passes. */
    passes: z.number().min(0).max(1),
  }),
  /** Scores that were worked out elsewhere. */
  cases: z
    .array(
      z.strictObject({
        environment: z.record(name, figure).optional(),
        /** Of each component with noise, in order. */
        noise: z.array(figure),
        strategy: z.record(name, figure),
        score: z.number().min(0).max(1),
      }),
    )
    .min(1)
    .max(64),
});

export type ScenarioDocument = z.output<typeof content>;

/** Raised with whatever changes a score of any document. */
const SCORER = 'scenario scorer 1';

export interface Scenario {
  readonly document: ScenarioDocument;
  /** SHA-256 (hex) over the whole document, which names its generator, and the scorer's version. */
  readonly digest: string;
}

const duplicate = (names: readonly string[]): string | undefined =>
  names.find((one, at) => names.indexOf(one) < at);

/** What is wrong with a document beyond its form; null where nothing is. */
function complaint({
  environment,
  parameters,
  constraints,
  components,
  texts,
  cases,
}: ScenarioDocument): string | null {
  const own = new Set(parameters.map((parameter) => parameter.name));
  const known = new Set([...own, ...environment.map((variable) => variable.name)]);
  const twice =
    duplicate([...parameters, ...environment].map((value) => value.name)) ??
    duplicate(components.map((part) => part.name));
  if (twice !== undefined) return `the name ${twice} is used twice`;
  const lost = components
    .flatMap(({ terms }) => terms.flatMap(({ of }) => of))
    .find((value) => !known.has(value));
  if (lost !== undefined)
    return `a component refers to ${lost}, which is neither a parameter nor in the environment`;
  const foreign = constraints
    .flatMap(({ terms }) => terms.map(({ of }) => of))
    .find((value) => !own.has(value));
  if (foreign !== undefined) return `a constraint refers to ${foreign}, which is not a parameter`;
  const twofold = components.find(({ terms }) =>
    terms.some(({ of }) => of.filter((value) => own.has(value)).length > 1),
  );
  if (twofold !== undefined) return `a term of ${twofold.name} is a product of two parameters`;
  const whole = environment.find(
    ({ kind, low, high }) =>
      kind === 'integer' && !(Number.isInteger(low) && Number.isInteger(high)),
  );
  if (whole !== undefined) return `${whole.name} is an integer, but its low or high is not`;
  if (resolvePrompt(texts) === '') return 'its texts give an empty prompt';
  const noises = components.filter(({ noise }) => noise !== undefined).length;
  if (cases.some(({ noise }) => noise.length !== noises))
    return `each case needs ${noises} noise values, one for each component that has noise`;
  return null;
}

/**
 * What the model is told: the prompt, else the description, else the labelled lines of what is
 * there.
 */
export function resolvePrompt({
  prompt = '',
  description = '',
  rules = '',
  response = '',
  evaluation = '',
}: ScenarioDocument['texts']): string {
  if (prompt !== '') return prompt;
  if (description !== '') return description;
  return [
    ['Rules', rules],
    ['Response format', response],
    ['Evaluation', evaluation],
  ]
    .filter(([, line]) => line !== '')
    .map(([label, line]) => `${label}: ${line}`)
    .join('\n');
}

/**
 * Checks a document: form, names, ranges, a prompt that is not empty. `loadScenario` tests it too.
 * @throws IsoproError TASK_INVALID
 */
export function readScenario(value: unknown): Scenario {
  const result = content.safeParse(value);
  if (!result.success)
    throw new IsoproError('TASK_INVALID', `not a scenario: ${z.prettifyError(result.error)}`);
  const document = result.data;
  const wrong = complaint(document);
  if (wrong !== null) throw new IsoproError('TASK_INVALID', `scenario ${document.id}: ${wrong}`);
  return { document, digest: hash('sha256', `${SCORER}\n${canonicalJson(asJson(document))}`) };
}
