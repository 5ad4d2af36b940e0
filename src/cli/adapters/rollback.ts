import { z } from 'zod';
import { checked } from '../../engine/argument-check.js';
import { readJson } from '../../files.js';
import { rollbackByEvidence, type RollbackRequest } from '../../registry/gates.js';
import type { Moved } from '../../registry/registry.js';
import { print, printJson } from '../output.js';
import {
  aliasOf,
  aliasOption,
  clockOption,
  registryOf,
  registryOption,
} from '../registry-flags.js';
import { command } from '../command.js';
import { required, text } from '../option.js';

/** The evidence does not ask for it. */
const NOT_SHOWN = 3;

const evidenceFile = z.strictObject({
  trials: z.array(z.unknown()),
  policy: z.record(z.string(), z.unknown()).optional(),
});

export const adaptersRollbackCommand = command({
  command: 'rollback <alias>',
  describe: 'Roll an alias back to its previous adapter',
  positionals: { alias: required(aliasOption.describe) },
  options: {
    evidence: text('roll back only if these trials show a regression: JSON file {trials, policy}'),
    reason: text('reason to record', ''),
    registry: registryOption,
    'accept-clock': clockOption,
  },
  epilogue:
    'Repeat it to go further back. An adapter that was rolled back returns only by another promotion. Exit code 3: the evidence does ' +
    'not show a regression, and no alias was moved.',
  examples: [
    ['$0 adapters rollback sql --reason "wrong joins since noon"', 'restore the previous champion'],
  ],
  handler: async ({ alias: named, evidence, reason, json, ...flags }) => {
    const { slot, alias } = aliasOf(named);
    const registry = registryOf(flags);
    let moved: Moved | null;
    if (evidence === undefined) {
      moved = await registry.rollback({ slot, alias, reason });
      if (json) return printJson(moved);
    } else {
      const given = checked(evidenceFile, readJson(evidence), 'evidence') as unknown as Pick<
        RollbackRequest,
        'trials' | 'policy'
      >;
      const found = await rollbackByEvidence(registry, { slot, alias, ...given });
      ({ moved } = found);
      if (moved === null) process.exitCode = NOT_SHOWN;
      if (json) return printJson(found);
      print(
        `${found.decision.decision}\n${found.decision.reasons.map((each) => `  ${each}\n`).join('')}`,
      );
      if (moved === null) return;
    }
    print(`${moved.alias}: ${moved.from} -> ${moved.to ?? 'the base without an adapter'}\n`);
  },
});
