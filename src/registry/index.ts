export {
  armOf,
  observe,
  setProbation,
  type Arm,
  type Observation,
  type ObserveRequest,
  type ProbationRequest,
} from './canary.js';
export type { Probation, ProbationInput } from './events.js';
export {
  BASE_VERSION,
  decideGate,
  drawGate,
  openGate,
  rollbackByEvidence,
  type GateRequest,
  type GateTrials,
  type RollbackRequest,
} from './gates.js';
export {
  aliasesAt,
  checkHistory,
  movesOf,
  proveAt,
  type HistoryProof,
  type Move,
  type ProvenHistory,
} from './history.js';
export type { Reading } from './ledger.js';
export { nameOf, recordId, type AdapterRecord } from './record.js';
export {
  Registry,
  type Moved,
  type MoveRequest,
  type Published,
  type PublishRequest,
  type RegistryOptions,
} from './registry.js';
export {
  resolveAdapter,
  type NotResolved,
  type Resolved,
  type ResolveOptions,
  type Unresolved,
} from './resolve.js';
export {
  AdapterService,
  serveAdapters,
  type LoadedVersion,
  type ServedVersion,
  type ServiceOptions,
} from './service.js';
export type { AliasState, Entry, GateState, RegistryState } from './state.js';
export {
  collectGarbage,
  repairRegistry,
  validateRegistry,
  type Collected,
  type Defect,
  type Validation,
} from './upkeep.js';
