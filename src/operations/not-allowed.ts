export type NotAllowedKind =
  | 'model'
  | 'task'
  | 'backend'
  | 'check'
  | 'run'
  | 'adapter'
  | 'file'
  | 'registry'
  | 'kind'
  | 'setting';

/** Why a request is refused that wants what it may not name. */
export class NotAllowed extends Error {
  override readonly name = 'NotAllowed';

  constructor(
    /** `model_not_allowed` and the like. */
    readonly code: `${NotAllowedKind}_not_allowed`,
    /** Path of the setting. */
    readonly param: string,
    message: string,
  ) {
    super(message);
  }
}
