// `npm run measure:harness`: what each answer to the scenarios leads to, on training and held-out
// draws; the table of least regret on the training draws, assets/deciders/table.json; and deciders
// on the held-out draws. Everything is kept in results/harness/, and a killed measurement goes on.
// About half an hour of a core. `-- --real`: also asks SmolLM2-135M-Instruct, which takes longer.
// `-- --draws N`: of each scenario for each purpose (5). `-- --write`: only the page is written.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { PAGE, harnessText, readHarness, withHarness } from './document-harness.mjs';
import { measuredBy, realModel, root, writeResult } from './experiment.mjs';

export { PAGE, harnessText, readHarness, withHarness };

async function measure() {
  const folder = path.join(root, 'results', 'harness');
  const built = (name) => import(path.join(root, 'dist', 'src', 'harness', name));
  const [{ measureBank }, { choicesOfTable, regretsOf, regretTable }, comparison, { openArm }] =
    await Promise.all(['bank.js', 'regret.js', 'comparison.js', 'arms.js'].map(built));

  const argument = (name) => {
    const at = process.argv.indexOf(name);
    return at < 0 ? undefined : process.argv[at + 1];
  };
  const draws = Number(argument('--draws') ?? 5);
  const model = process.argv.includes('--real') ? realModel() : undefined;
  const told = (stage) => (done, total) => {
    if (done % 10 === 0 || done === total) process.stderr.write(`${stage}: ${done} of ${total}\n`);
  };

  mkdirSync(folder, { recursive: true });
  const bank = path.join(folder, 'bank.jsonl');
  // round by round, so that what a killed measurement leaves is complete for fewer draws
  for (let round = 1; round < draws; round++)
    await measureBank({
      file: bank,
      purposes: ['training', 'held-out'],
      draws: round,
      onRun: told(`bank, round ${round}`),
    });
  const measured = await measureBank({
    file: bank,
    purposes: ['training', 'held-out'],
    draws,
    onRun: told(`bank, round ${draws}`),
  });
  const of = (purpose) => measured.filter((each) => each.purpose === purpose);
  const table = choicesOfTable(of('training'));
  const tableFile = {
    format: 'isopro.table.v1',
    choices: table,
    seed: '0',
    draws,
  };
  writeFileSync(
    path.join(root, 'assets', 'deciders', 'table.json'),
    `${JSON.stringify(tableFile, null, 2)}\n`,
  );

  const heldOut = of('held-out');
  const answers = path.join(folder, 'answers.jsonl');
  const arms = ['scripted', 'observe', 'random', 'table'].map((name) => openArm(name, { table }));
  await comparison.askDeciders({
    file: answers,
    draws: heldOut,
    arms,
    plays: true,
    onDone: told('deciders'),
  });
  if (model !== undefined) {
    const arm = openArm(`model:${model}`);
    arms.push(arm);
    await comparison.askDeciders({
      file: answers,
      draws: heldOut,
      arms: [arm],
      plays: false,
      onDone: told(arm.name),
    });
  }
  // models that were asked before
  const earlier = [
    ...new Set(
      readFileSync(answers, 'utf8')
        .split('\n')
        .filter((line) => line !== '')
        .map((line) => JSON.parse(line).decider)
        .filter((name) => name.startsWith('model:') && !arms.some((arm) => arm.name === name)),
    ),
  ].map((name) => ({ name, table: '' }));
  const regrets = measured.map((each) => regretsOf(each));
  await writeResult(path.join(folder, 'summary.json'), {
    ...(await measuredBy()),
    format: 'isopro.harness.v1',
    draws,
    measured: measured.length,
    silent: regrets.filter((each) => each === null).length,
    alike: regrets.filter((each) => each?.byOption === null).length,
    table,
    regret: Object.fromEntries(
      ['training', 'held-out'].map((purpose) => [
        purpose,
        Object.fromEntries(regretTable(of(purpose))),
      ]),
    ),
    deciders: comparison.decidersCompared(answers, heldOut, [...arms, ...earlier]),
  });
  for (const arm of arms) await arm[Symbol.asyncDispose]();
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  if (!process.argv.includes('--write')) await measure();
  const page = path.join(root, PAGE);
  writeFileSync(page, withHarness(readFileSync(page, 'utf8'), harnessText(readHarness())));
}
