/**
 * Every error that isopro-native throws: its code, what happened and what to do. A place that knows
 * better may word the remedy of its own error. `docs/errors.md` is generated from this table and a
 * test throws every code.
 */
export const ERRORS = {
  ABORTED: 'The caller cancelled the operation; nothing needs to be done.',
  ADAPTER_CORRUPT:
    'Copy, export or download the adapter again, and compare its size with that of the original; `isopro-native judge RUN` tells whether ' +
    "a run's own is whole.",
  ADAPTER_MISMATCH:
    'Use an adapter that was trained on this base model; `isopro-native adapters inspect FILE` shows its shapes and its base.',
  ARCH_UNSUPPORTED: 'Use a model of a supported architecture: llama, qwen2, qwen3 or gemma2.',
  BACKEND_INCAPABLE: 'Use a back end that has what is named above; a local model has all of it.',
  BACKEND_REPLY_INVALID:
    'Correct the back end: it answers each sample once, as its capabilities promise; `docs/backends.md` says how.',
  BACKEND_UNAVAILABLE:
    'Run `isopro-native doctor`; reinstall with `npm install` or build llama.cpp with ISOPRO_LLAMA_FROM_SOURCE=1.',
  CHECKPOINT_INVALID:
    'The text is no checkpoint or ticket of this program; take it again from where it was published.',
  CONDITIONS_EQUAL:
    'Choose settings under which the two conditions differ (fewer trained layers, more rollouts), or leave one of them out.',
  CONFLICT:
    'Somebody else has moved that name meanwhile: look with `isopro-native adapters list`, then decide anew.',
  CONTEXT_OVERFLOW:
    'Shorten the text or ask for fewer tokens; a larger contextTokens helps as far as the model was trained for it, and no further.',
  DATA_INVALID:
    'Correct the row named above; `docs/own-data.md` says what a row holds, and what each check asks of its answer.',
  DECISION_INVALID:
    'The policy has to answer within the playbook: one fired rule, the direction for its side, operations within their bounds.',
  EVALUATION_SET_CORRUPT:
    'Install the package again; a frozen evaluation set must have the committed checksum.',
  FILE_UNREADABLE: 'Give the path of a file that is there and that you may read.',
  GATE_EVIDENCE_INVALID:
    'Correct the member of the evidence named above; `docs/gate.md` says what a trial holds.',
  GATE_POLICY_INVALID:
    'Correct the member of the policy named above; `docs/gate.md` lists what each policy has.',
  GRAMMAR_INVALID:
    'Correct the grammar or JSON Schema at the place named above. What no grammar keeps is left out of it and checked on the answer.',
  INVALID_ARGUMENT: 'Correct the argument named above.',
  JOBS_BUSY: 'Let what runs there end, or give this server another folder with --runs.',
  JOBS_UNREADABLE:
    'The queue of jobs is damaged: put a copy of .jobs/jobs.sqlite back, or move the folder .jobs away, which forgets its jobs.',
  JOB_ENDED:
    'The system may have ended it for want of memory: give the job less (contextTokens, trainerMemory), or the machine more.',
  LOG_BUSY:
    'Another process writes this run; let it finish or end it, then run the same command again, or give another folder with --out.',
  LOG_EXISTS: 'Choose another folder, or resume the run that is there.',
  LOG_FINISHED: 'The run has ended; start a new one to record more.',
  LOG_NOT_FOUND: 'Give a run folder that holds log.sqlite, or the path of such a file.',
  LOG_TAMPERED:
    'Do not trust this run: `isopro-native log verify FOLDER` shows where it disagrees; restore an untouched copy or start again.',
  LOG_UNREADABLE:
    'The file is no log of this program or is damaged; `isopro-native log verify FOLDER` shows where.',
  LOG_WRITE_FAILED:
    'Free disk space or make the folder writable, then run the same command again: it resumes.',
  MEASUREMENT_CORRUPT: 'Remove the file named above; what it kept is measured anew.',
  MODEL_CORRUPT:
    'Download or copy the file again, and compare its size or SHA-256 with what stands where it comes from.',
  MODEL_DOWNLOAD_FAILED:
    'Check the network, or fetch the URL above by other means and give the path of the file as the model.',
  MODEL_NOT_FOUND:
    'Give a path to a .gguf file, an alias from `isopro-native models list`, or an hf: URI.',
  MODEL_UNSUPPORTED:
    'Use a decoder-only text model in GGUF with a tensor type that llama.cpp reads. A file that is newer than this installation may load ' +
    'with a newer isopro-native; another file of the same model may load now.',
  NATIVE_ADDON_MISSING:
    'Run `npm rebuild isopro-native --foreground-scripts` where it is installed; without an addon built for this platform it needs ' +
    'a C++ compiler, CMake and git.',
  NATIVE_FAILURE:
    'This is a defect of isopro-native: please report it with the output of `isopro-native doctor --json`.',
  NOTHING_TRAINED:
    'Give problems of which the model solves some already: easier ones, or a larger model; `tasks calibrate` measures which.',
  NUMERIC_FAILURE:
    'The model produced a value that is not finite; check the file, the adapter and its scale.',
  OBJECT_DISPOSED: 'Load the object again; a disposed one cannot be used.',
  OUT_OF_MEMORY: 'Lower contextTokens, run fewer sequences at once, or use a smaller model.',
  PACKAGE_MISSING:
    'Install the package named above, or install isopro-native without --omit=optional.',
  POLICY_FAILED:
    'Correct the policy; what it threw stands above. Its rule is left without an answer and asked about again.',
  POLICY_TIMEOUT:
    'Make the policy answer sooner, or give it more time with policyTimeout. Its rule is left without an answer and asked about again.',
  PORT_UNAVAILABLE: 'Give another --port or --host, or end the program that listens there.',
  PROBLEM_INVALID:
    'Correct the problem as named above; `isopro-native tasks generate` prints well-formed ones.',
  PYTHON_UNAVAILABLE:
    'Install Python 3.10 or newer with the packages that the task imports, or name another interpreter with ISOPRO_PYTHON=/path/to/python.',
  RECORDING_INCOMPLETE:
    'Evaluate with the task, set, style and number of samples that were recorded, or record the replies that are missing; the prompts ' +
    'have to be the same to the letter.',
  RECORDING_INVALID: 'Correct the line named above; `docs/backends.md` says what a line holds.',
  REGISTRY_CLOCK:
    'Correct the clock of this machine; where the earlier time was the wrong one, repeat with --accept-clock.',
  REGISTRY_INVALID:
    'Do not change the registry by hand; `isopro-native adapters validate` says what is wrong with it.',
  REGISTRY_NOT_FOUND:
    'Publish an adapter first (`isopro-native adapters publish`), or name the folder with --registry or ISOPRO_HOME.',
  REGISTRY_REFUSED: 'Do first what is named above; `docs/registry.md` says what may follow what.',
  REGISTRY_UNRESOLVED:
    '`isopro-native adapters list` shows what is published, and under which names.',
  REPLY_INVALID:
    'Give the reply more maxTokens, or say the rule that it broke so that a grammar can keep it: by an enum, a length, a format.',
  RUNS_NOT_COMPARABLE:
    'Compare two runs that ended and were measured on the same test problems: same task, version and --test-size.',
  RUN_DIFFERS:
    'Give another folder with --out, or the settings that the run in this folder began with.',
  RUN_MANIFEST_INVALID:
    'The manifest is of another version or was changed; start the run again in a new folder.',
  RUN_NOT_FOUND: 'Give the folder of a run, one that holds manifest.json and log.sqlite.',
  SERVER_NOT_READY:
    'The name stays where it was: look at what that server reports, or end it, then move the name again.',
  SOLVER_FAILED:
    'Try again with a longer time limit; `isopro-native doctor` shows whether the solver loads.',
  SYSTEM_LIMIT:
    'Raise the limit named above (`ulimit -u` for threads, `ulimit -n` for open files) or end other programs; --threads 1 needs the ' +
    'fewest threads.',
  TASK_INVALID:
    'Correct the member of the task named above; `docs/tasks.md` lists what a task must have.',
  TASK_TIMEOUT: 'Make the member named above faster: each call may take 5 seconds.',
  TASK_UNKNOWN:
    'Use a task from `isopro-native tasks list`, the path of a .js or .ts file that exports one or of data (CSV or JSON Lines), or ' +
    'python:MODULE[:NAME].',
  TEACHER_NO_BETTER:
    'Take a larger model or one that was trained on the task, give it solved examples (--teacher-examples), or ask for less --headroom.',
  TEMPLATE_INVALID:
    'The chat template in the model file cannot be rendered; pass token ids instead of messages.',
  TIER_UNKNOWN: 'Use one of the tiers listed above.',
  VERIFIER_UNDECIDED:
    "Correct the task's parse or verify so that it decides on ordinary replies; `isopro-native tasks verify` tries them one by one.",
  WITNESS_KEY_INVALID: 'Give the file that `isopro-native witness --show-key` printed.',
  WITNESS_KEY_MISSING: 'Give the public key of the witness that signed the run with --key FILE.',
  WITNESS_REFUSED:
    'The witness has signed another history of this run; `isopro-native log verify FOLDER` shows where they part.',
  WITNESS_UNAVAILABLE:
    'Check that the folder $ISOPRO_HOME/witness can be written, or run without a witness process (the report says so).',
  WRITE_FAILED:
    'Choose a folder that is there and may be written, or free some space; what was there before is untouched.',
} as const satisfies Record<string, string>;

export type ErrorCode = keyof typeof ERRORS;

/**
 * The one error class. `message` says what happened, `remedy` what to do; `code` is stable across
 * versions.
 */
export class IsoproError extends Error {
  /**
   * 'AbortError' where the code is ABORTED, as of every call of the platform that a signal ends.
   */
  override readonly name: 'IsoproError' | 'AbortError';
  readonly code: ErrorCode;
  readonly remedy: string;

  constructor(code: ErrorCode, message: string, options?: { cause?: unknown; remedy?: string }) {
    super(message, options?.cause === undefined ? undefined : { cause: options.cause });
    this.name = code === 'ABORTED' ? 'AbortError' : 'IsoproError';
    this.code = code;
    this.remedy = options?.remedy ?? ERRORS[code];
  }

  toJSON(): { code: ErrorCode; message: string; remedy: string } {
    return { code: this.code, message: this.message, remedy: this.remedy };
  }
}

/** What a call rejects with that its signal ended: the cause is the signal's reason. */
export function abortError(message: string, signal: AbortSignal | undefined): IsoproError {
  return new IsoproError('ABORTED', message, { cause: signal?.reason });
}

/** ABORTED as the signal has it, where it was the signal; any other error as it is. */
export function withReason(error: unknown, signal: AbortSignal | undefined): unknown {
  const ended =
    error instanceof IsoproError && error.code === 'ABORTED' && signal?.aborted === true;
  return ended ? abortError(error.message, signal) : error;
}
