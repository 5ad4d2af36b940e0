import { writeFileSync } from 'node:fs';
import { readJson, requireTarget, unwritable } from '../../files.js';
import { isoproHome } from '../../log/home.js';
import { publicKeyFile, readTrustedKey } from '../../log/witness-key.js';
import { label } from '../../text/hostile-text.js';
import {
  aliasesAt,
  checkHistory,
  movesOf,
  proveAt,
  type Move,
  type ProvenHistory,
} from '../../registry/history.js';
import { aliasText } from '../../registry/names.js';
import type { AliasMap } from '../../registry/state.js';
import { print, printJson, printJsonLine, UsageError } from '../output.js';
import {
  aliasOf,
  aliasOption,
  registryOf,
  registryOption,
  witnessKeyOption,
  timeOf,
  timeText,
} from '../registry-flags.js';
import { command } from '../command.js';
import { text } from '../option.js';

export const adaptersHistoryCommand = command({
  command: 'history [alias]',
  describe:
    'Show how aliases moved and what was in use on a date, with a proof that others can check',
  positionals: { alias: { type: 'string', describe: `${aliasOption.describe}; default: all` } },
  options: {
    at: text('show what was in use at this time: 2026-11-22 (0:00 UTC), 2026-11-22T14:30Z, now'),
    proof: text('write a proof of --at to this file'),
    check: text('check a proof; needs no registry'),
    key: witnessKeyOption,
    registry: registryOption,
  },
  epilogue:
    'For a date after the last event, a proof needs a new signed head, which is written to the log.',
  examples: [
    ['$0 adapters history sql --at 2026-11-22', 'what was in use for sql'],
    ['$0 adapters history --at 2026-11-22 --proof proof.json', 'with a proof'],
    ['$0 adapters history --check proof.json --key witness.pub', 'check a proof'],
  ],
  handler: async ({ alias: named, at, proof, check, json, ...flags }) => {
    const place = named === undefined ? null : aliasOf(named);
    const only = place === null ? null : aliasText(place.slot, place.alias);
    if (check !== undefined) {
      if (at !== undefined || proof !== undefined)
        throw new UsageError('--check reads a proof: leave out --at and --proof.');
      const key = readTrustedKey(flags.key ?? publicKeyFile(isoproHome()));
      return printHistory(checkHistory(readJson(check), key), only, json);
    }
    if (at === undefined && proof !== undefined) throw new UsageError('--proof requires --at.');
    const registry = registryOf(flags);
    if (at === undefined) {
      const moves = movesOf(await registry.read()).filter(
        ({ alias }) => only === null || alias === only,
      );
      if (json) {
        for (const move of moves) printJsonLine({ ...move, time: timeText(move.timeUs) });
        return;
      }
      return print(moves.length === 0 ? 'No alias was moved.\n' : moves.map(moveText).join(''));
    }
    const time = timeOf(at);
    if (proof === undefined) {
      const aliases = aliasesAt(await registry.read(), time).filter(
        ([alias]) => only === null || alias === only,
      );
      if (json) return printJson({ at: timeText(time), aliases: Object.fromEntries(aliases) });
      return print(mapText(aliases));
    }
    requireTarget(proof);
    const proven = await proveAt(registry, time);
    try {
      writeFileSync(proof, `${JSON.stringify(proven, null, 2)}\n`);
    } catch (cause) {
      throw unwritable(proof, cause);
    }
    printHistory(
      checkHistory(proven, readTrustedKey(flags.key ?? publicKeyFile(isoproHome()))),
      only,
      json,
    );
  },
});

const mapText = (aliases: AliasMap): string =>
  aliases.length === 0
    ? 'Nothing was in use.\n'
    : aliases
        .map(([alias, id]) => `${label(alias, 200)}  ${id ?? 'the base without an adapter'}\n`)
        .join('');

const moveText = ({ alias, from, to, cause, gate, forced, reason, timeUs }: Move): string => {
  const by = forced ? `${cause} by force` : gate === null ? cause : `${cause} by gate ${gate}`;
  const why = reason === '' ? '' : `: ${label(reason, 300)}`;
  return `${timeText(timeUs)}  ${label(alias, 200)}  ${from?.slice(0, 12) ?? 'base'} -> ${to?.slice(0, 12) ?? 'base'}  ${by}${why}\n`;
};

function printHistory(
  { notBeforeUs, notAfterUs, aliases, moves }: ProvenHistory,
  only: string | null,
  json: boolean,
): void {
  const wanted = aliases.filter(([alias]) => only === null || alias === only);
  const between = moves.filter(({ alias }) => only === null || alias === only);
  const from = notBeforeUs === null ? null : timeText(notBeforeUs);
  if (json) {
    printJson({
      holds: true,
      from,
      to: timeText(notAfterUs),
      aliases: Object.fromEntries(wanted),
      moves: between,
    });
    return;
  }
  const when = from === null ? 'before it' : 'between the two';
  print(
    `proven by ${from === null ? 'a head signed' : `heads signed ${from} and`} ${timeText(notAfterUs)}\n${mapText(wanted)}` +
      (between.length === 0
        ? `no alias was moved ${when}\n`
        : `moved ${when}:\n${between.map(moveText).join('')}`),
  );
}
