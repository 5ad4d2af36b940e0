/** State of the running trainer that a policy may know. */
export interface TrainerSettings {
  readonly learningRate: number;
  /** Sequences for each optimiser step. */
  readonly batchSize: number;
  readonly maxGradNorm: number;
  /** Adam's. */
  readonly epsilon: number;
  readonly modules: {
    readonly [name: string]: {
      readonly rank: number;
      readonly scale: number;
      readonly dormantDirections: readonly number[];
    };
  };
  /** Linear maps of the trained layers that no module adapts. */
  readonly unadapted: readonly string[];
  /**
   * SHA-256 of the best adapter so far, and of the last one whose weights and moments were all
   * finite.
   */
  readonly bestAdapter: string;
  readonly lastSoundAdapter: string;
  /** Largest batch that the time budget allows. */
  readonly maxBatchSize: number;
}
