/**
 * Every error that isopro-native throws: its code, what happened and what to do. A place that knows
 * better may word the remedy of its own error. `docs/errors.md` is generated from this table and a
 * test throws every code.
 */
export const ERRORS = {
  ABORTED: 'The caller cancelled the operation. No action is needed.',
  ADAPTER_CORRUPT:
    'Copy, export or download the adapter again and compare its size with the original. `isopro-native judge RUN` ' +
    'checks the adapter of a run.',
  ADAPTER_MISMATCH:
    'Use an adapter that was trained on this base model. `isopro-native adapters inspect FILE` shows its shapes and its base model.',
  ARCH_UNSUPPORTED:
    'Use a text decoder that llama.cpp reads. `docs/own-model.md` lists which of them you can train.',
  BACKEND_FAILED:
    'Correct what the reasons above name, then run the same command again: it does not ask for recorded replies again. ' +
    '--max-failed allows more failures.',
  BACKEND_INCAPABLE:
    'Use a back end that has the capability named above. A local model has all of them.',
  BACKEND_PROGRAM_FAILED:
    'Run the program yourself and give it the example line of `docs/backends.md`. What it writes to stderr may say why it failed.',
  BACKEND_REPLY_INVALID:
    'Correct the back end: it must answer each sample once, as its capabilities promise. See `docs/backends.md`.',
  BACKEND_UNAVAILABLE:
    'Run `isopro-native doctor`. Then reinstall with `npm install`, or build llama.cpp with ISOPRO_LLAMA_FROM_SOURCE=1.',
  BANK_MISMATCH:
    'Another version or another kind of processor measured this bank. Measure again into another folder.',
  BUDGET_EXHAUSTED:
    'Raise the limit and run the same command again: it does not ask for recorded replies again.',
  CHECKPOINT_INVALID:
    'The text is not a checkpoint or ticket of this program. Copy it again from where it was published.',
  CONDITIONS_EQUAL:
    'Choose settings under which the two conditions differ (fewer trained layers, more rollouts), or leave one of them out.',
  CONFLICT:
    'Someone else has moved this name in the meantime. Run `isopro-native adapters list`, then decide again.',
  CONTEXT_OVERFLOW:
    'Shorten the text or ask for fewer tokens. You can raise contextTokens up to the length that the model was trained for.',
  DATA_INVALID:
    'Correct the row named above. `docs/own-data.md` lists what a row may hold and what each check expects of its answer.',
  DECISION_INVALID:
    'Correct the policy: it must answer one fired rule, in the direction for that side, with operations within their bounds.',
  EVALUATION_SET_CORRUPT:
    'Install the package again. A frozen evaluation set must have the checksum that was committed with it.',
  FILE_UNREADABLE: 'Give the path of a file that exists and that you may read.',
  GATE_EVIDENCE_INVALID:
    'Correct the member of the evidence named above. `docs/gate.md` lists what a trial holds.',
  GATE_POLICY_INVALID:
    'Correct the member of the policy named above. `docs/gate.md` lists the members of each policy.',
  GRAMMAR_INVALID:
    'Correct the grammar or JSON Schema at the place named above. Leave out what a grammar cannot enforce, and check ' +
    'that part in the answer yourself.',
  INVALID_ARGUMENT: 'Correct the argument named above.',
  JOBS_BUSY: 'Wait until the other server ends, or give this server another folder with --runs.',
  JOBS_UNREADABLE:
    'The job queue is damaged. Restore a copy of .jobs/jobs.sqlite, or move the folder .jobs away, which forgets its jobs.',
  JOB_ENDED:
    'The system may have ended the job because memory ran out. Give the job less (contextTokens, trainerMemory), or the machine more.',
  KEY_MISSING: 'Set the variable named above to your key, or name another variable with --key-env.',
  LOG_BUSY:
    'Another process writes this run. Wait until it finishes or end it, then run the same command again, or give ' +
    'another folder with --out.',
  LOG_EXISTS: 'Choose another folder, or resume the run in this one.',
  LOG_FINISHED: 'The run has ended. Start a new run to record more.',
  LOG_NOT_FOUND: 'Give a run folder that holds log.sqlite, or the path of such a file.',
  LOG_TAMPERED:
    'Do not trust this run. `isopro-native log verify FOLDER` shows where it disagrees. Restore an untouched copy or start again.',
  LOG_UNREADABLE:
    'The file is not a log of this program, or it is damaged. `isopro-native log verify FOLDER` shows where.',
  LOG_WRITE_FAILED:
    'Free disk space or make the folder writable, then run the same command again. It resumes.',
  MEASUREMENT_CORRUPT: 'Remove the file named above. The next run measures it again.',
  MODEL_CORRUPT:
    'Download or copy the file again, then compare its size or SHA-256 with the published one.',
  MODEL_DOWNLOAD_FAILED:
    'Check the network, or download the URL above yourself and give the path of the file as the model.',
  MODEL_NOT_FOUND:
    'Give a path to a .gguf file, an alias from `isopro-native models list`, or an hf: URI.',
  MODEL_UNSUPPORTED:
    'Use a decoder-only text model in GGUF with a tensor type that llama.cpp reads. A newer file may load with a ' +
    'newer isopro-native. Another file of the same model may load now.',
  NATIVE_ADDON_MISSING:
    'Run `npm rebuild isopro-native --foreground-scripts` in the folder where it is installed. Without a prebuilt ' +
    'addon for this platform, this needs a C++ compiler, CMake and git.',
  NATIVE_FAILURE:
    'This is a defect of isopro-native. Please report it with the output of `isopro-native doctor --json`.',
  NOTHING_TRAINED:
    'Use easier problems or a larger model, so that some replies to a problem pass and some fail. `tasks calibrate` shows ' +
    'for which problems that is so.',
  NUMERIC_FAILURE:
    'The model produced a value that is not finite. Check the model file, the adapter and its scale.',
  OBJECT_DISPOSED: 'Load the object again. A disposed object cannot be used.',
  OUT_OF_MEMORY: 'Lower contextTokens, run fewer sequences at once, or use a smaller model.',
  PACKAGE_MISSING:
    'Install the package named above, or install isopro-native without --omit=optional.',
  POLICY_FAILED:
    'Correct the policy; its error is printed above. The rule stays unanswered and is asked about again.',
  POLICY_TIMEOUT:
    'Make the policy answer sooner, or raise policyTimeout. The rule stays unanswered and is asked about again.',
  PORT_UNAVAILABLE: 'Give another --port or --host, or end the program that uses this port.',
  PROBLEM_INVALID:
    'Correct the problem as named above. `isopro-native tasks generate` prints well-formed problems.',
  PYTHON_UNAVAILABLE:
    'Install Python 3.10 or newer with the packages that the task imports, or name another interpreter with ' +
    'ISOPRO_PYTHON=/path/to/python.',
  RECORDING_INCOMPLETE:
    'Evaluate with the task, set, style and number of samples that were recorded, or record the replies that are ' +
    'missing. The prompts must be exactly the same.',
  RECORDING_INVALID: 'Correct the line named above. `docs/backends.md` lists what a line holds.',
  REGISTRY_CLOCK:
    'Correct the clock of this machine. If the earlier time was the wrong one, repeat with --accept-clock.',
  REGISTRY_INVALID:
    'Do not change the registry by hand. `isopro-native adapters validate` shows what is wrong with it.',
  REGISTRY_NOT_FOUND:
    'Publish an adapter first (`isopro-native adapters publish`), or name the folder with --registry or ISOPRO_HOME.',
  REGISTRY_REFUSED:
    'First do what is named above. `docs/registry.md` lists which steps may follow which.',
  REGISTRY_UNRESOLVED:
    '`isopro-native adapters list` shows the published adapters and their names.',
  REPLY_INVALID:
    'Raise maxTokens, or state the rule that was broken in a form that a grammar enforces: an enum, a length or a format.',
  RUNS_NOT_COMPARABLE:
    'Compare two runs that ended and were measured on the same test problems: same task, version and --test-size.',
  RUN_DIFFERS:
    'Give another folder with --out, or the settings with which the run in this folder started.',
  RUN_MANIFEST_INVALID:
    'The manifest has another version or was changed. Start the run again in a new folder.',
  RUN_NOT_FOUND: 'Give the folder of a run. It holds manifest.json and log.sqlite.',
  SERVER_NOT_READY:
    'The name has not moved. Look at the status of that server, or end it, then move the name again.',
  SOLVER_FAILED:
    'Try again with a longer time limit. `isopro-native doctor` shows whether the solver loads.',
  SYSTEM_LIMIT:
    'Raise the limit named above (`ulimit -u` for threads, `ulimit -n` for open files) or end other programs. ' +
    '--threads 1 needs the fewest threads.',
  TASK_INVALID:
    'Correct the member of the task named above. `docs/tasks.md` lists what a task must have.',
  TASK_TIMEOUT: 'Make the member named above faster. Each call may take 5 seconds.',
  TASK_UNKNOWN:
    'Use a task from `isopro-native tasks list`, a .js or .ts file that exports one, a data file (CSV or JSON ' +
    'Lines), or python:MODULE[:NAME].',
  TEACHER_NO_BETTER:
    'Use a larger teacher or one that was trained on the task, give it solved examples (--teacher-examples), or lower --headroom.',
  TEMPLATE_INVALID:
    'The chat template in the model file cannot be rendered. Pass token ids instead of messages.',
  TIER_UNKNOWN: 'Use one of the tiers listed above.',
  VERIFIER_UNDECIDED:
    "Correct the task's parse or verify so that it decides on ordinary replies. `isopro-native tasks verify` tries replies one by one.",
  WITNESS_KEY_INVALID: 'Give the file that `isopro-native witness --show-key` printed.',
  WITNESS_KEY_MISSING: 'Give the public key of the witness that signed the run with --key FILE.',
  WITNESS_REFUSED:
    'The witness has signed another history of this run. `isopro-native log verify FOLDER` shows where the two differ.',
  WITNESS_UNAVAILABLE:
    'Make the folder $ISOPRO_HOME/witness writable, or run without a witness process. The report then says so.',
  WRITE_FAILED:
    'Choose a folder that exists and that you may write, or free some space. Existing files are unchanged.',
} as const satisfies Record<string, string>;

export type ErrorCode = keyof typeof ERRORS;

const BRAND = Symbol.for('isopro-native.IsoproError');

/**
 * The one error class. `message` says what happened, `remedy` what to do; `code` is stable across
 * versions.
 */
export class IsoproError extends Error {
  get [BRAND](): true {
    return true;
  }

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

// The bundled command and the library may meet in one process, each with this class.
Object.defineProperty(IsoproError, Symbol.hasInstance, {
  value(this: unknown, value: unknown): boolean {
    return this === IsoproError
      ? typeof value === 'object' && value !== null && BRAND in value
      : Function.prototype[Symbol.hasInstance].call(this, value);
  },
});

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
