/** A registry as the page shows it. */
import { given } from '../../given.js';
import { label } from '../../text/hostile-text.js';
import { movesOf, nameOf, type Move, type Reading } from '../../registry/index.js';
import { aliasText } from '../../registry/names.js';
import { BUILT_IN_IDS } from '../../tasks/registry.js';
import type { AdaptersAnswer } from './shapes.js';

const time = (us: number): string => new Date(us / 1000).toISOString();
const byOf = ({ gate, forced, cause }: Pick<Move, 'gate' | 'forced' | 'cause'>): string =>
  forced ? `${cause}, by force` : gate === null ? cause : `${cause}, by gate ${gate}`;

export function registryView(reading: Reading): AdaptersAnswer {
  const { state } = reading;
  const moves = movesOf(reading);
  return {
    aliases: state.aliases.map(({ slot, alias, current, movedUs, probation, observed }) => {
      const name = aliasText(slot, alias);
      const move = moves.findLast((each) => each.alias === name)!;
      const before = state.before(slot, alias);
      return {
        name,
        current,
        movedAt: time(movedUs),
        by: byOf(move),
        reason: label(move.reason, 300),
        ...given({ before }),
        probation: probation && {
          share: probation.share,
          problems: probation.problems,
          seen: observed?.blocks ?? 0,
        },
      };
    }),
    adapters: [...state.entries.values()]
      .reverse()
      .map(({ id, record, publishedUs, withdrawn, collected }) => ({
        id,
        name: label(nameOf(record, id), 120),
        publishedAt: time(publishedUs),
        withdrawn: withdrawn === null ? null : label(withdrawn, 300),
        collected,
        base: label(record.base.name, 80),
        baseSha256: record.base.sha256,
        sha256: record.adapter.sha256,
        bytes: record.adapter.bytes,
        rank: record.adapter.rank,
        layers: record.adapter.layers,
        dataset: record.dataset && label(record.dataset.description, 300),
        evidence: record.evidence.map(({ description, sha256 }) => ({
          description: label(description, 300),
          sha256,
        })),
        parent: record.lineage.parent,
        producedBy: record.lineage.producedBy.map((each) => label(each, 80)),
      })),
    gates: state.gates.map(
      ({ gate, slot, alias, challenger, incumbent, attempt, alpha, decision, used }) => ({
        gate,
        name: aliasText(slot, alias),
        challenger,
        incumbent,
        attempt,
        alpha,
        decision,
        used,
      }),
    ),
    moves: moves
      .map((move) => ({
        at: time(move.timeUs),
        name: move.alias,
        from: move.from,
        to: move.to,
        by: byOf(move),
        reason: label(move.reason, 300),
      }))
      .reverse(),
    tasks: [...BUILT_IN_IDS],
  };
}
