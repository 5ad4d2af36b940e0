/** How any task is asked, and whether a reply that was cut off is judged. */
export interface AskingOptions {
  /** Before every prompt, as the system's message; what a prompt has of its own follows it. */
  readonly system?: string;
  /** Solved examples before every prompt. */
  readonly examples?: number;
  /** A reply that was cut off is judged as it stands; else it fails as `truncated`. */
  readonly judgeTruncated?: boolean;
}
