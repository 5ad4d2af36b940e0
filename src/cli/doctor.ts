import { diagnose, type Finding } from '../engine/diagnosis.js';
import { terminalStyle, wrapped } from '../text/terminal-style.js';
import { interruption, print, printJson } from './output.js';
import { Progress } from './progress.js';
import { command } from './command.js';
import { toggle } from './option.js';

export const doctorCommand = command({
  command: 'doctor',
  describe: 'Check this machine and this installation',
  options: {
    selftest: toggle(
      'also run computations: parity with node-llama-cpp, gradients, scores, a short bench (under a minute)',
    ),
  },
  epilogue: 'Exit codes: 0 nothing failed (warnings allowed), 1 something failed.',
  examples: [
    ['$0 doctor', 'findings, and what to do about them'],
    ['$0 doctor --selftest', 'a report for the maintainers'],
  ],
  handler: async ({ json, selftest }) => {
    const ok = selftest ? await runSelftest(json) : await examine(json);
    if (!ok) process.exitCode = 1;
  },
});

async function examine(json: boolean): Promise<boolean> {
  const findings = await diagnose();
  if (json) printJson({ findings });
  else print(findings.map(describe).join(''));
  return findings.every(({ status }) => status !== 'fail');
}

async function runSelftest(json: boolean): Promise<boolean> {
  const { selftest } = await import('../../bench/selftest.js');
  using progress = new Progress({ label: 'selftest', unit: 'steps' });
  const report = await selftest({
    signal: interruption(),
    onStep: (name, index, count) => progress.update(index, { total: count, note: name }),
  });
  progress.clear();
  if (json) {
    printJson(report);
    return report.ok;
  }
  const steps = report.steps.map(
    ({ name, status, detail, seconds }) =>
      `${status.padEnd(5)} ${name}: ${detail} (${seconds.toFixed(1)} s)\n`,
  );
  print(
    `----- isopro-native selftest -----\n${report.findings.map(describe).join('')}${steps.join('')}result: ` +
      `${report.ok ? 'ok' : 'FAILED'}\n----- end -----\n`,
  );
  return report.ok;
}

function describe({ check, status, detail, remedy }: Finding): string {
  const style = terminalStyle(process.stdout);
  const what = wrapped(`${status.padEnd(5)} ${check}: ${detail}`, style, 6);
  return `${what}\n${remedy === null ? '' : `${wrapped(`      what to do: ${remedy}`, style, 2)}\n`}`;
}
