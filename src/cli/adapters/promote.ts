import { z } from 'zod';
import { checked } from '../../engine/checked.js';
import { readJson } from '../../files.js';
import type { GateDecision, GatePolicyInput } from '../../gate/index.js';
import { measureGate, requireMeasurable } from '../../operations/gates/measure-gate.js';
import { decideGate, openGate, type GateTrials } from '../../registry/gates.js';
import { aliasText, CHAMPION } from '../../registry/names.js';
import { lookUp, unresolvedError } from '../../registry/resolve.js';
import { defineCommand } from '../command.js';
import { print, printJson, UsageError } from '../output.js';
import { Progress } from '../progress.js';
import {
  aliasOf,
  aliasOption,
  clockOption,
  measureFlags,
  measureOptionsOf,
  probationTerms,
  registryOf,
  registryOption,
} from '../registry-flags.js';

/** The gate did not accept, so nothing was moved. */
const NOT_ACCEPTED = 3;

const trialsFile = z.strictObject({
  seed: z.string(),
  trials: z.array(z.unknown()),
  guards: z.record(z.string(), z.array(z.unknown())).optional(),
});

type Way = 'open' | 'evidence' | 'problems' | 'force' | 'gate' | 'assignment';

interface Flags {
  readonly open: boolean;
  readonly policy: string | undefined;
  readonly gate: number | undefined;
  readonly evidence: string | undefined;
  readonly problems: number | undefined;
  readonly force: boolean;
}

/** By what the name is moved. @throws UsageError */
function wayOf(
  { open, policy, gate, evidence, problems, force }: Flags,
  name: string,
  isChampion: boolean,
): Way {
  const given: Way[] = [];
  if (open) given.push('open');
  if (evidence !== undefined) given.push('evidence');
  if (problems !== undefined) given.push('problems');
  if (force) given.push('force');
  if (given.length > 1)
    throw new UsageError(`Give one of ${given.map((each) => `--${each}`).join(' and ')}.`);
  const way = given[0] ?? (gate === undefined ? 'assignment' : 'gate');
  if (way === 'evidence' && gate === undefined)
    throw new UsageError('--evidence is of a gate: give --gate too.');
  if (gate !== undefined && (way === 'open' || way === 'force'))
    throw new UsageError(`--gate is of a gate that was begun: leave out --${way}.`);
  if (policy !== undefined && (gate !== undefined || (way !== 'open' && way !== 'problems')))
    throw new UsageError('--policy is for a gate that begins, and stays for its life.');
  if (problems !== undefined && !(Number.isSafeInteger(problems) && problems > 0))
    throw new UsageError(`--problems: expected a whole number above 0, got ${problems}`);
  if (way !== 'assignment' && !isChampion)
    throw new UsageError(`${name} is moved without a gate or force.`);
  if (way === 'assignment' && isChampion)
    throw new UsageError(
      `${name} takes evidence (--problems, or --open and then --gate and --evidence), or --force.`,
    );
  return way;
}

export const adaptersPromoteCommand = defineCommand({
  command: 'promote <adapter>',
  describe: 'Put a published adapter in use: by a gate that accepts it, or by force',
  builder: (yargs) =>
    yargs
      .positional('adapter', {
        type: 'string',
        demandOption: true,
        describe: 'name, id or alias of a published adapter',
      })
      .option('as', { ...aliasOption, demandOption: true })
      .option('problems', {
        type: 'number',
        requiresArg: true,
        describe:
          'begin a gate and measure both versions here, on up to so many fresh problems of the scenario',
      })
      .options(measureFlags)
      .option('open', {
        type: 'boolean',
        default: false,
        describe: 'begin a gate: print its number and the seed to draw its problems with',
      })
      .option('resume', {
        type: 'boolean',
        default: false,
        describe:
          'with --problems: go on with the last gate of this adapter for this name, where it is open, or has accepted and moved nothing',
      })
      .option('policy', {
        type: 'string',
        requiresArg: true,
        describe: 'JSON file of the policy of a gate that begins (docs/gate.md)',
      })
      .option('lineage', {
        choices: ['any', 'foreign'] as const,
        default: 'any' as const,
        describe: 'foreign: a gate that begins refuses what was trained on answers of its own line',
      })
      .option('gate', {
        type: 'number',
        requiresArg: true,
        describe: 'a gate that was begun; alone: one that has accepted',
      })
      .option('evidence', {
        type: 'string',
        requiresArg: true,
        describe: 'JSON file of its trials: {seed, trials, guards}',
      })
      .option('guards', {
        type: 'string',
        requiresArg: true,
        describe:
          'with --gate and --problems: JSON file with trials of its other guards, as `truth guards` writes it',
      })
      .option('force', {
        type: 'boolean',
        default: false,
        describe: 'without a gate; it is on record',
      })
      .option('canary', {
        type: 'number',
        requiresArg: true,
        describe: 'part of the keys that get it at first, 0 to 1 (`adapters canary`)',
      })
      .option('probation', {
        type: 'number',
        requiresArg: true,
        describe: 'problems that have to pass before every key gets it',
        defaultDescription: '100 with --canary',
      })
      .option('wait', {
        type: 'number',
        requiresArg: true,
        default: 60,
        describe: 'seconds that a running server may take to load it',
      })
      .option('reason', {
        type: 'string',
        requiresArg: true,
        default: '',
        describe: 'for the record',
      })
      .option('transaction', {
        type: 'string',
        requiresArg: true,
        describe: 'a name of this call: repeated, it changes nothing',
      })
      .option('registry', registryOption)
      .option('accept-clock', clockOption)
      .epilogue(
        'Exit code 3: the gate did not accept, and nothing was moved. Any alias but champion is moved without gate or force. A gate ' +
          'that is begun counts as an attempt, whatever becomes of it; one that was interrupted goes on with --gate N --problems.',
      )
      .example(
        '$0 adapters promote sql@challenger --as sql --problems 200',
        'a gate against the champion: draw, measure, decide, move',
      )
      .example(
        '$0 adapters promote sql@challenger --as sql --open',
        'begin one that is measured elsewhere',
      )
      .example(
        '$0 adapters promote sql@challenger --as sql --gate 2 --evidence trials.json',
        'decide it, and move where it accepts',
      )
      .example(
        '$0 adapters promote sql@challenger --as sql --gate 2 --problems 200 --guards runs/guards-2/evidence.json',
        'with guards of beliefs (`truth guards --gate 2`)',
      )
      .example(
        '$0 adapters promote sql@challenger --as sql --problems 200 --canary 0.1',
        'a tenth of the keys get it at first',
      )
      .example(
        '$0 adapters promote 3f2a9c --as sql --force --reason "the first one"',
        'without a gate',
      ),
  handler: async ({
    adapter,
    as,
    policy,
    evidence,
    guards,
    problems,
    model,
    task,
    threads,
    force,
    reason,
    canary,
    probation,
    wait,
    transaction,
    json,
    ...argv
  }) => {
    const { slot, alias } = aliasOf(as);
    let way = wayOf(
      { ...argv, policy, evidence, problems, force },
      aliasText(slot, alias),
      alias === CHAMPION,
    );
    if (argv.resume && way !== 'problems') throw new UsageError('--resume goes with --problems.');
    if (guards !== undefined && (way !== 'problems' || argv.gate === undefined))
      throw new UsageError(
        '--guards goes with --gate and --problems: they are measured with the seed of a gate that was begun.',
      );
    if (!(wait >= 0 && wait <= 86_400))
      throw new UsageError(`--wait: expected 0 to 86,400 seconds, got ${wait}`);
    const terms =
      canary === undefined && probation === undefined
        ? {}
        : { probation: probationTerms(canary, probation) };
    const registry = registryOf(argv);
    const { state } = await registry.read();
    const entry = lookUp(state, adapter);
    if ('ok' in entry) throw unresolvedError(entry);
    const { id } = entry;
    let { gate } = argv;
    if (argv.resume && gate === undefined) {
      // this call has moved the name already, before it was interrupted
      const done = transaction === undefined ? null : state.transaction(transaction);
      const pending = state.pendingGate(slot, alias, id);
      gate = done === null ? pending?.gate : (done.gate ?? undefined);
      if (done !== null || pending?.decision === 'accepted') way = 'gate';
    }
    if (way === 'open' || (way === 'problems' && gate === undefined)) {
      const given = policy === undefined ? {} : { policy: readJson(policy) as GatePolicyInput };
      if (way === 'problems') requireMeasurable(given.policy);
      const begun = await openGate(registry, {
        slot,
        alias,
        challenger: id,
        lineage: argv.lineage,
        ...given,
      });
      gate = begun.gate;
      if (json && way === 'open') return printJson(begun);
      const against = begun.incumbent ?? 'the base without an adapter';
      const spent = `attempt ${begun.attempt}, alpha ${begun.alpha.toFixed(6)}`;
      if (!json) print(`gate ${gate}: ${id}\nagainst ${against}\n${spent}\nseed ${begun.seed}\n`);
      if (way === 'open') return;
    }
    let decision: GateDecision | null = null;
    if (way === 'evidence')
      decision = await decideGate(
        registry,
        gate!,
        checked(trialsFile, readJson(evidence!), 'evidence') as unknown as GateTrials,
      );
    if (way === 'problems') {
      using progress = new Progress({ label: 'measuring', unit: 'problems' });
      const others =
        guards === undefined
          ? {}
          : { guards: checked(trialsFile, readJson(guards), 'guards') as unknown as GateTrials };
      const options = measureOptionsOf({ problems: problems!, model, task, threads }, progress);
      const measured = await measureGate(registry, gate!, { ...options, ...others });
      progress.clear();
      ({ decision } = measured);
    }
    if (decision !== null) {
      const { decision: word, reasons, blocks } = decision;
      if (!json)
        print(`${word} after ${blocks} problems\n${reasons.map((each) => `  ${each}\n`).join('')}`);
      if (word !== 'accepted') {
        if (json) printJson({ gate, decision, moved: null });
        process.exitCode = NOT_ACCEPTED;
        return;
      }
    }
    const ofGate = gate === undefined ? {} : { gate };
    const moved = await registry.move({
      slot,
      alias,
      id,
      force,
      reason,
      patienceMs: wait * 1000,
      ...terms,
      ...ofGate,
      ...(transaction === undefined ? {} : { transaction }),
    });
    if (json) return printJson({ gate: gate ?? null, decision, moved });
    print(
      `${moved.alias}: ${moved.from ?? 'nothing'} -> ${moved.to}${force ? ' (by force)' : ''}\n`,
    );
  },
});
