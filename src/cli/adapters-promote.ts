import { z } from 'zod';
import { checked } from '../engine/checked.js';
import { readJson } from '../files.js';
import type { GatePolicyInput } from '../gate/index.js';
import { decideGate, openGate, type GateTrials } from '../registry/gates.js';
import { aliasText, CHAMPION } from '../registry/names.js';
import { lookUp, unresolvedError } from '../registry/resolve.js';
import { defineCommand } from './command.js';
import { printJson, UsageError } from './output.js';
import { aliasOf, aliasOption, clockOption, registryOf, registryOption } from './registry-flags.js';

/** The gate did not accept, so nothing was moved. */
const NOT_ACCEPTED = 3;

const trialsFile = z.strictObject({
  seed: z.string(),
  trials: z.array(z.unknown()),
  guards: z.record(z.string(), z.array(z.unknown())).optional(),
});

export const adaptersPromoteCommand = defineCommand({
  command: 'promote <adapter>',
  describe: 'Put a published adapter in use: by a gate that accepts it, or by force',
  builder: (yargs) =>
    yargs
      .positional('adapter', { type: 'string', demandOption: true, describe: 'name, id or alias of a published adapter' })
      .option('as', { ...aliasOption, demandOption: true })
      .option('open', {
        type: 'boolean',
        default: false,
        describe: 'begin a gate: print its number and the seed to draw its problems with',
      })
      .option('policy', { type: 'string', requiresArg: true, describe: 'JSON file of the policy of --open (docs/gate.md)' })
      .option('gate', { type: 'number', requiresArg: true, describe: 'the gate to decide' })
      .option('evidence', { type: 'string', requiresArg: true, describe: 'JSON file of its trials: {seed, trials, guards}' })
      .option('force', { type: 'boolean', default: false, describe: 'without a gate; it is on record' })
      .option('reason', { type: 'string', requiresArg: true, default: '', describe: 'for the record' })
      .option('transaction', { type: 'string', requiresArg: true, describe: 'a name of this call: repeated, it changes nothing' })
      .option('registry', registryOption)
      .option('accept-clock', clockOption)
      .epilogue(
        'Exit code 3: the gate did not accept, and nothing was moved. Any alias but champion is moved without gate or force. A gate ' +
          'that is begun counts as an attempt, whatever becomes of it.',
      )
      .example('$0 adapters promote sql@challenger --as sql --open', 'begin a gate against the champion')
      .example('$0 adapters promote sql@challenger --as sql --gate 1 --evidence trials.json', 'decide it, and move where it accepts')
      .example('$0 adapters promote 3f2a9c --as sql --force --reason "the first one"', 'without a gate'),
  handler: async ({ adapter, as, open, policy, gate, evidence, force, reason, transaction, json, ...flags }) => {
    const { slot, alias } = aliasOf(as);
    const text = aliasText(slot, alias);
    if ([open, gate !== undefined, force].filter(Boolean).length > 1) throw new UsageError('Give one of --open, --gate and --force.');
    if ((gate === undefined) !== (evidence === undefined)) throw new UsageError('--gate and --evidence go together.');
    if (policy !== undefined && !open) throw new UsageError('--policy goes with --open: a gate keeps the policy that it was begun with.');
    const gated = open || gate !== undefined || force;
    if (gated && alias !== CHAMPION) throw new UsageError(`${text} is moved without a gate or force.`);
    if (!gated && alias === CHAMPION) throw new UsageError(`${text} takes evidence (--open, then --gate and --evidence) or --force.`);
    const registry = registryOf(flags);
    const entry = lookUp((await registry.read()).state, adapter);
    if ('ok' in entry) throw unresolvedError(entry);
    const { id } = entry;
    if (open) {
      const begun = await openGate(registry, {
        slot,
        alias,
        challenger: id,
        ...(policy === undefined ? {} : { policy: readJson(policy) as GatePolicyInput }),
      });
      if (json) return printJson(begun);
      const against = begun.incumbent ?? 'the base without an adapter';
      process.stdout.write(
        `gate ${begun.gate}: ${id}\nagainst ${against}\nattempt ${begun.attempt}, alpha ${begun.alpha.toFixed(6)}\nseed ${begun.seed}\n`,
      );
      return;
    }
    let decision = null;
    if (gate !== undefined) {
      decision = await decideGate(registry, gate, checked(trialsFile, readJson(evidence!), 'evidence') as unknown as GateTrials);
      if (!json) process.stdout.write(`gate ${gate}: ${decision.decision}\n${decision.reasons.map((each) => `  ${each}\n`).join('')}`);
      if (decision.decision !== 'accepted') {
        if (json) printJson({ gate, decision, moved: null });
        process.exitCode = NOT_ACCEPTED;
        return;
      }
    }
    const move = {
      slot,
      alias,
      id,
      force,
      reason,
      ...(gate === undefined ? {} : { gate }),
      ...(transaction === undefined ? {} : { transaction }),
    };
    const moved = await registry.move(move);
    if (json) return printJson({ gate: gate ?? null, decision, moved });
    process.stdout.write(`${moved.alias}: ${moved.from ?? 'nothing'} -> ${moved.to}${force ? ' (by force)' : ''}\n`);
  },
});
