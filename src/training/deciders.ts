/** Opens who chooses from the menu in a run: a table, a model, a person, or the seed. */
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { openBackend } from '../backends/open-backend.js';
import type { Closers } from '../closers.js';
import type { Adapter } from '../engine/adapter.js';
import { readLetters } from '../engine/letter-readout.js';
import { loadModel, type Model } from '../engine/model.js';
import { IsoproError } from '../errors.js';
import { readJson } from '../files.js';
import { given } from '../given.js';
import { askedNow, readerOf, type DeciderCommitment } from '../monitor/policies/commitment.js';
import { humanDecider } from '../monitor/policies/human.js';
import { letterAt, promptText } from '../monitor/policies/prompt.js';
import { MOST_ORDERS, ordersOf } from '../monitor/policies/readout.js';
import { tableFile, type TableChoices } from '../monitor/policies/table.js';
import type { Question, Replied } from '../monitor/question.js';
import type { LoraTypes } from '../trainees/lora/trainee.js';
import { checked } from '../engine/argument-check.js';
import { decidingBackend, namedPolicy, OWN_MODELS, readPolicySetting } from './policy-setting.js';
import type { RunSettings } from './settings.js';
import { votesDecider, type DecidingBackend, type LoraDecider } from './votes-decider.js';

const TABLE = new URL('../../../assets/deciders/table.json', import.meta.url);

export interface OpenDeciderOptions {
  readonly model: Model;
  /** The adapter that the model answers with now; null before there is one. */
  readonly adapter: () => Adapter | null;
  readonly closers: Closers;
  readonly signal?: AbortSignal | undefined;
  /** Feedback on earlier attempts, for the prompt. */
  readonly feedback?: string | undefined;
  /** The options of a rule and a side, in place of the table that ships. */
  readonly table?: TableChoices | undefined;
  /** Who answers in place of a model in this process. */
  readonly decider?: DecidingBackend | undefined;
  /** Shows a text to a person and waits for words. */
  readonly ask?: ((text: string, signal: AbortSignal) => Promise<string>) | undefined;
}

const FREE = { tokens: { prompt: 0, sampled: 0 }, cost: 0 };
const MOST_FEEDBACK = 20_000;
/** Milliseconds; long enough that the clock of a busy machine decides nothing. */
const READOUT_TIMEOUT = 600_000;

/** The table that ships with the package. @throws IsoproError FILE_UNREADABLE, INVALID_ARGUMENT */
const shippedTable = (): TableChoices =>
  checked(tableFile, readJson(fileURLToPath(TABLE)), 'table').choices;

async function modelDecider(
  name: string,
  { monitor: { policy, margin = 0 }, model: { threads, matmul }, seed }: RunSettings,
  { model: base, adapter, closers, signal, feedback }: OpenDeciderOptions,
): Promise<LoraDecider> {
  const own = OWN_MODELS.includes(name);
  const adapted = name === 'adapted';
  const model = own
    ? base
    : await loadModel(name, {
        fixedThreads: true,
        matmul,
        ...(threads === 0 ? {} : { threads }),
        ...given({ signal }),
      });
  if (!own) closers.add(() => model.dispose());
  const commitment: DeciderCommitment = {
    kind: 'readout',
    model: { name: path.basename(own ? base.path : name), sha256: await model.hash(), adapted },
    orders: MOST_ORDERS,
    margin,
    ...askedNow('readout', feedback ?? null),
  };
  const runSeed = BigInt(seed);
  const reader = readerOf<LoraTypes>(commitment, runSeed);
  async function read(question: Question<LoraTypes>, stop: AbortSignal): Promise<Replied> {
    // the base model decides without what it is training
    const aside = own && !adapted ? adapter() : null;
    if (aside !== null) await model.setAdapter(null);
    try {
      const { prompt, menu } = question;
      const orders = ordersOf(question, runSeed);
      const { logProbabilities, tokens } = await readLetters(
        model,
        orders.map((order) => promptText(prompt, order)),
        menu.map((_, place) => letterAt(place)),
        { signal: stop },
      );
      return {
        reply: { orders, logProbabilities },
        tokens: { prompt: tokens, sampled: 0 },
        cost: 0,
      };
    } finally {
      if (aside !== null) await model.setAdapter(aside);
    }
  }
  let underWay: Promise<unknown> = Promise.resolve();
  return {
    ...reader,
    commitment,
    name: own ? policy : `model:${path.basename(name)}`,
    timeout: READOUT_TIMEOUT,
    ask(question, options) {
      const reading = read(question, options.signal);
      underWay = reading.catch(() => undefined);
      return reading;
    },
    settled: () => underWay,
  };
}

/** The service that a policy names, asked as it is where nobody says more. */
async function opened(spec: string, closers: Closers): Promise<DecidingBackend> {
  const backend = await openBackend(spec);
  closers.add(() => backend.dispose());
  return { backend };
}

/**
 * Opens the decider that the setting names.
 * @throws IsoproError INVALID_ARGUMENT if there is no person to ask or the feedback is too long,
 *   FILE_UNREADABLE, and as loadModel and
 *   openBackend
 */
export async function openDecider(
  settings: RunSettings,
  options: OpenDeciderOptions,
): Promise<LoraDecider> {
  const { policy } = settings.monitor;
  const setting = readPolicySetting(policy);
  const { feedback = null, table, ask, decider } = options;
  if (decider !== undefined && setting?.kind !== 'model')
    throw new IsoproError(
      'INVALID_ARGUMENT',
      'decider: it has an effect only with the setting monitor.policy model:NAME, by which the run names it',
    );
  if (feedback !== null && feedback.length > MOST_FEEDBACK)
    throw new IsoproError(
      'INVALID_ARGUMENT',
      `feedback: it has ${feedback.length} characters; at most ${MOST_FEEDBACK} are allowed`,
    );
  const runSeed = BigInt(settings.seed);
  const simple = (commitment: DeciderCommitment, name: string): LoraDecider => ({
    ...readerOf<LoraTypes>(commitment, runSeed),
    commitment,
    name,
    ask: async () => ({ ...FREE, reply: null }),
  });
  switch (setting?.kind) {
    case 'random':
      return simple({ kind: 'random', ...askedNow('random', null) }, 'random');
    case 'table':
      return simple(
        { kind: 'table', choices: table ?? shippedTable(), ...askedNow('table', null) },
        'table',
      );
    case 'human': {
      if (ask === undefined)
        throw new IsoproError(
          'INVALID_ARGUMENT',
          'monitor.policy: there is no person to ask: human needs a terminal',
        );
      const commitment: DeciderCommitment = { kind: 'human', ...askedNow('human', feedback) };
      return { ...humanDecider(readerOf<LoraTypes>(commitment, runSeed), ask), commitment };
    }
    case 'model':
      return decider === undefined && decidingBackend(policy) === null
        ? modelDecider(setting.model, settings, options)
        : votesDecider(
            namedPolicy(policy),
            runSeed,
            feedback,
            decider ?? (await opened(decidingBackend(policy)!, options.closers)),
          );
    default:
      throw new IsoproError(
        'INVALID_ARGUMENT',
        `monitor.policy: ${policy} does not choose from a menu`,
      );
  }
}
