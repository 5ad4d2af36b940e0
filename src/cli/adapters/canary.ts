import { z } from 'zod';
import { checked } from '../../engine/argument-check.js';
import { readJson } from '../../files.js';
import { given } from '../../given.js';
import { measureCanary } from '../../operations/gates/measure-canary.js';
import { observe, setProbation, type Observation } from '../../registry/canary.js';
import { PROBATION_PROBLEMS } from '../../registry/events.js';
import { aliasText } from '../../registry/names.js';
import { policyOf, type AliasState } from '../../registry/state.js';
import { interruption, print, printJson, UsageError } from '../output.js';
import { Progress } from '../progress.js';
import {
  aliasOf,
  aliasOption,
  clockOption,
  registryOf,
  registryOption,
} from '../registry-flags.js';
import { command } from '../command.js';
import { number, required, text, toggle } from '../option.js';

/** The version before was put back. */
const ROLLED_BACK = 3;

const trialsFile = z.strictObject({ trials: z.array(z.unknown()) });

/** Terms of --share and --probation. @throws UsageError */
function probationTerms(
  share: number | undefined,
  problems: number | undefined,
  now: { readonly share: number; readonly problems: number } | null | undefined,
): { readonly share: number; readonly problems: number } {
  const terms = {
    share: share ?? now?.share ?? 1,
    problems: problems ?? now?.problems ?? PROBATION_PROBLEMS,
  };
  if (!(terms.share > 0 && terms.share <= 1))
    throw new UsageError(`--share: expected a number above 0 and at most 1, got ${terms.share}`);
  if (!(Number.isSafeInteger(terms.problems) && terms.problems > 0))
    throw new UsageError(`--probation: expected a whole number above 0, got ${terms.problems}`);
  return terms;
}

function stateText(
  text: string,
  named: AliasState | null,
  before: string | null | undefined,
): string {
  if (named === null || named.current === null) return `${text} names no adapter\n`;
  const { probation, observed, current } = named;
  const terms =
    probation === null
      ? 'for every key'
      : `for ${(100 * probation.share).toFixed(1)} % of the keys, until ${probation.problems} problems have been observed`;
  const other = before === undefined ? 'nothing' : (before ?? 'the base without an adapter');
  return `${text}  ${current}\n  ${terms}\n  previous: ${other}\n  problems seen: ${observed?.blocks ?? 0}\n`;
}

function observationText({ decision, moved, probation }: Observation): string {
  const { decision: word, blocks, reasons } = decision;
  const then =
    moved !== null
      ? `${moved.alias}: ${moved.from} -> ${moved.to ?? 'the base without an adapter'}\n`
      : probation === null
        ? 'for every key\n'
        : `on probation: ${blocks} of ${probation.problems} problems\n`;
  return `${word} after ${blocks} problems\n${reasons.map((each) => `  ${each}\n`).join('')}${then}`;
}

export const adaptersCanaryCommand = command({
  command: 'canary <alias>',
  describe: 'Compare the live version with its predecessor; rolls back automatically',
  positionals: { alias: required(aliasOption.describe) },
  options: {
    trials: text('post trials from a JSON file {trials}, of both versions on the same problems'),
    problems: number('measure both versions on this many fresh problems and post the trials'),
    share: number('share of keys that get the new version, 0 to 1'),
    probation: number('problems to observe before every key gets the new version'),
    end: toggle('end the canary: every key gets the new version'),
    model: { ...text('base model for --problems'), defaultDescription: 'the recorded one' },
    task: { ...text('task for --problems'), defaultDescription: 'the scenario' },
    threads: number('threads for --problems; default: the physical cores'),
    reason: text('reason to record', ''),
    registry: registryOption,
    'accept-clock': clockOption,
  },
  epilogue:
    'Exit code 3: the trials show that the new version is worse, and the previous one was restored. Without an option: show the state.',
  examples: [
    ['$0 adapters canary sql --problems 50', 'measure both versions on 50 fresh problems'],
    ['$0 adapters canary sql --trials feedback.json', 'post user feedback on both versions'],
    ['$0 adapters canary sql --share 0.5', 'serve the new version to half of the keys'],
  ],
  handler: async ({
    alias: text,
    trials,
    problems,
    share,
    probation,
    end,
    model,
    task,
    threads,
    reason,
    json,
    ...flags
  }) => {
    const name = aliasOf(text);
    const ways = { trials, problems, share: share ?? probation, end: end || undefined };
    if (Object.values(ways).filter((each) => each !== undefined).length > 1)
      throw new UsageError(
        'Give only one of --trials, --problems, --share or --probation, and --end.',
      );
    if (problems !== undefined && !(Number.isSafeInteger(problems) && problems > 0))
      throw new UsageError(`--problems: expected a whole number above 0, got ${problems}`);
    const registry = registryOf(flags);
    if (trials !== undefined || problems !== undefined) {
      let seen: Observation;
      if (problems === undefined) {
        seen = await observe(registry, {
          ...name,
          ...(checked(trialsFile, readJson(trials!), 'trials') as { trials: never[] }),
        });
      } else {
        using progress = new Progress({ label: 'measuring', unit: 'problems' });
        seen = await measureCanary(registry, name, {
          problems,
          ...given({ model, task, threads }),
          signal: interruption(),
          onProgress: ({ done, total }) => progress.update(done, { total }),
        });
        progress.clear();
      }
      if (seen.moved !== null) process.exitCode = ROLLED_BACK;
      if (seen.decision.decision === 'invalid') process.exitCode = 1;
      return json ? printJson(seen) : print(observationText(seen));
    }
    const before = (await registry.read()).state.alias(name.slot, name.alias);
    if (end) await setProbation(registry, { ...name, terms: null, reason });
    else if (ways.share !== undefined) {
      const now = before === null ? null : { ...before.probation, ...policyOf(before) };
      await setProbation(registry, {
        ...name,
        terms: { ...now, ...probationTerms(share, probation, before?.probation) },
        reason,
      });
    }
    const { state } = await registry.read();
    const [named, previous] = [
      state.alias(name.slot, name.alias),
      state.before(name.slot, name.alias),
    ];
    if (json) return printJson({ ...named, before: previous });
    print(stateText(aliasText(name.slot, name.alias), named, previous));
  },
});
