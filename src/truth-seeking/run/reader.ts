/** Readers of beliefs: beliefs of different readers are separate sets with scores of their own. */
import { hash } from 'node:crypto';
import { canonicalJson, type Json } from '../../canonical-json.js';
import { codeVersion, machineClass } from '../../run-folder/machine.js';
import { WORDINGS } from '../beliefs/readout.js';
import { believingReasoner } from './belief-source.js';
import type { TruthConfig } from './config.js';
import type { BeliefsRecord, Reader } from './records.js';
import { computing, type TruthReasoners } from './reasoners.js';

/** SHA-256 of the wordings that beliefs are read with here. */
export const PROBES = hash('sha256', canonicalJson(WORDINGS.map((wording) => wording('A', 'B'))));

export const readerId = (reader: Reader): string =>
  hash('sha256', canonicalJson(reader as unknown as Json));

/** @throws IsoproError BACKEND_INCAPABLE, INVALID_ARGUMENT as `believerOf` */
export async function readerOfBeliefs(
  policies: TruthReasoners,
  config: Pick<TruthConfig, 'belief' | 'beliefSystem' | 'standpoint' | 'measurements'>,
): Promise<Reader> {
  const { belief, beliefSystem, standpoint, measurements } = config;
  const { id, identity } = believingReasoner(policies, belief);
  const code = await codeVersion('beliefs');
  const machine = machineClass(computing(policies));
  return {
    source: belief === 'exact' ? 'logprob' : belief,
    beliefSystem,
    ...(belief === 'exact' && { probes: PROBES }),
    ...((belief === 'judge' || belief === 'self') && { standpoint, measurements }),
    policy: { id, identity: { ...identity } as Json },
    // both have a version
    engine: { ...code, ...('kernels' in machine ? { machine } : machine) } as unknown as Json,
  };
}

/** Reader of beliefs that were recorded before readers were, from the beliefs themselves. */
export function readerOfReadout({
  policyId,
  beliefSystem,
  readings,
}: BeliefsRecord['readout']): Reader {
  const source =
    readings.flatMap(({ belief }) => (belief === null ? [] : [belief.source]))[0] ?? 'logprob';
  return { source, beliefSystem, policy: { id: policyId, identity: null }, engine: null };
}
