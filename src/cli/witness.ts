import { runWitness } from '../log/witness-server.js';
import { openWitnessKey, publicKeyFile } from '../log/witness-key.js';
import { formatTrustedKey } from '../log/trusted-key.js';
import { printJson, UsageError } from './output.js';
import { command } from './command.js';
import { number, toggle } from './option.js';

export const witnessCommand = command({
  command: 'witness',
  describe: 'Run the process that signs the heads of runs; `run` starts it automatically',
  options: {
    'show-key': toggle('print the public key and exit'),
    idle: number('seconds to wait for the first run', 5),
  },
  epilogue:
    'It exits when its last run disconnects. It proves more under another user or on another machine: see docs/trust.md.',
  examples: [['$0 witness --show-key > witness.pub', 'the key to publish with a run']],
  handler: async ({ showKey, idle, json }) => {
    if (!Number.isFinite(idle)) throw new UsageError('--idle takes a number of seconds');
    const text = formatTrustedKey({ signer: 'witness', publicKey: openWitnessKey().publicKey });
    if (showKey) {
      if (json) printJson({ key: text, file: publicKeyFile() });
      else process.stdout.write(`${text}\n`);
      return;
    }
    const stop = new AbortController();
    process.once('SIGTERM', () => stop.abort());
    process.once('SIGINT', () => stop.abort());
    const ended = await runWitness({
      idleMs: Math.max(0, idle) * 1000,
      signal: stop.signal,
      onListening: (address) => process.stderr.write(`witness ${text}\nlistening on ${address}\n`),
    });
    if (ended === 'busy')
      process.stderr.write('a witness is already running for this home folder\n');
    if (json) printJson({ ended });
  },
});
