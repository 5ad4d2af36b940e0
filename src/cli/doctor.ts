import { diagnose, type Finding } from '../engine/diagnosis.js';
import { defineCommand } from './command.js';
import { printJson } from './output.js';

export const doctorCommand = defineCommand({
  command: 'doctor',
  describe: 'Examine this machine and this installation',
  builder: (yargs) =>
    yargs
      .epilogue('Exit codes: 0 nothing failed (warnings allowed), 1 something failed.')
      .example('$0 doctor', 'what was found, and what to do about it')
      .example('$0 doctor --json', 'the same for a program, with the figures'),
  handler: async ({ json }) => {
    const findings = await diagnose();
    if (json) printJson({ findings });
    else process.stdout.write(findings.map(describe).join(''));
    if (findings.some(({ status }) => status === 'fail')) process.exitCode = 1;
  },
});

function describe({ check, status, detail, remedy }: Finding): string {
  return `${status.padEnd(5)} ${check}: ${detail}\n${remedy === null ? '' : `      what to do: ${remedy}\n`}`;
}
