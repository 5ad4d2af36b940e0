/** What a report says, of whole, broken and hostile runs; no browser needed. */
import { cpSync, mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { Questions } from '../../src/run-folder/question.js';
import { chooseRollouts } from '../../src/run-folder/choose-rollouts.js';
import { escapeHtml, html, label } from '../../src/text/hostile-text.js';
import { visible } from '../../src/visible-text.js';
import { readRun, testEvaluation } from '../../src/run-folder/read-run.js';
import { summariseRun } from '../../src/lookup/run-list.js';
import { chartLabel, svgChart } from '../../src/report/svg-chart.js';
import { REPORT_BYTES, writeReport } from '../../src/report/write-report.js';
import { writeRunFolder } from '../models/run-folder.js';
import { HOSTILE } from '../models/hostile.js';
import { processorMs } from '../models/processor-time.js';

let root: string;
let home: string;
const at = (name: string): string => path.join(root, name);
let runs = 0;
const build = async (
  name: string,
  options: Partial<Parameters<typeof writeRunFolder>[0]> = {},
): Promise<string> => {
  await writeRunFolder({
    folder: at(name),
    home,
    runId: (++runs).toString(16).padStart(32, '0'),
    ...options,
  });
  return at(name);
};
const reportOf = async (folder: string): Promise<string> =>
  readFileSync((await writeReport(folder)).file, 'utf8');

/** Visible text of a part of the page. */
const textOf = (part: string): string =>
  part
    .replace(/<(style|script)[\s\S]*?<\/\1>/g, '')
    .replace(/<[^>]*>/g, ' ')
    .replace(/\s+/g, ' ');
const sectionOf = (page: string, id: string): string =>
  new RegExp(`<section id="${id}">([\\s\\S]*?)</section>`).exec(page)?.[1] ?? '';

beforeAll(() => {
  root = mkdtempSync(path.join(tmpdir(), 'isopro-report-'));
  home = at('home');
  process.env.ISOPRO_HOME = home;
});
afterAll(() => {
  delete process.env.ISOPRO_HOME;
  rmSync(root, { recursive: true, force: true });
});

describe('the report of a whole run', () => {
  let folder: string;
  let page: string;
  beforeAll(async () => {
    folder = await build('whole');
    page = await reportOf(folder);
  });

  test('has every part', () => {
    expect([...page.matchAll(/<section id="(\w+)">/g)].map(([, id]) => id)).toEqual([
      'result',
      'failures',
      'learning',
      'adapter',
      'use',
      'rules',
      'integrity',
      'rollouts',
      'settings',
    ]);
    const [, nav] = /<nav [^>]*>([\s\S]*?)<\/nav>/.exec(page)!;
    const named = [...page.matchAll(/<section id="(\w+)"><h2>([^<]*)/g)].map(([, id, title]) => [
      id,
      title,
    ]);
    expect(
      [...nav!.matchAll(/<a href="#(\w+)">([^<]*)/g)].map(([, id, title]) => [id, title]),
    ).toEqual(named);
    expect(page.match(/<h3>[^<]+<\/h3>\n<figure/g)).toHaveLength(6);
    expect(
      [...page.matchAll(/<figure role="img" aria-label="([^"]+)">/g)].map(([, name]) => name),
    ).toEqual([
      'accuracy on dev problems by tier over iterations',
      'hit rate and loss over the run',
      'hit rate by tier and iteration',
      'composition of the replay buffer by iteration',
      'score of each layer',
      'rules fired and remedies by iteration',
    ]);
    expect(page.match(/<svg/g)).toHaveLength(6);
  });

  test('gives the figures that the log gives, counted here anew', () => {
    const run = readRun(folder);
    const [before, after] = (['before', 'after'] as const).map(
      (when) =>
        new Map(
          run.evaluations
            .find((each) => each.set === 'test' && each.when === when)!
            .outcomes.map(([id, tier, kind]) => [id, { tier, kind }]),
        ),
    );
    const [result, policies] = sectionOf(page, 'result').split('<h3>') as [string, string];
    const rows = [...result.matchAll(/<tr[^>]*>(<td[\s\S]*?)<\/tr>/g)].map(([, row]) =>
      [...row!.matchAll(/<td[^>]*>([\s\S]*?)<\/td>/g)].map(([, cell]) => textOf(cell!).trim()),
    );
    expect(rows.map(([name]) => name)).toEqual([
      'T0 warm-up',
      'T1',
      'T2',
      'T3',
      'T4sr',
      'T4rd',
      'T4sd',
      'T4',
      'T5 never trained on · not trained on',
      'mean',
    ]);
    for (const [named, n, was, is, change, pairs] of rows.slice(0, 7)) {
      const [name] = named!.split(' ');
      const ids = [...before!].filter(([, { tier }]) => tier === name).map(([id]) => id);
      const solved = (map: typeof before): number =>
        ids.filter((id) => map!.get(id)!.kind === 'pass').length;
      const gained = ids.filter(
        (id) => before!.get(id)!.kind === 'fail' && after!.get(id)!.kind === 'pass',
      ).length;
      expect(Number(n)).toBe(20);
      expect(was).toMatch(new RegExp(`^${((100 * solved(before)) / 20).toFixed(1)} `));
      expect(is).toMatch(new RegExp(`^${((100 * solved(after)) / 20).toFixed(1)} `));
      expect(Number(change!.replace('−', '-'))).toBeCloseTo(
        5 * (solved(after) - solved(before)),
        6,
      );
      expect(pairs).toBe(`+${gained} −${gained - (solved(after) - solved(before))}`);
    }
    expect(rows[7]![1]).toBe('60'); // the group T4 holds three tiers
    // every fifth problem is solved by each policy
    expect(rows.map((row) => row.at(-1))).toEqual(rows.map(() => '20.0'));
    expect(textOf(policies)).toMatch(
      /program mean T0 warm-up T1 .* T5 never trained on answer_zero 20\.0 20\.0 .*earliest_start 20\.0/,
    );
  });

  test('calls tiers by their names where it speaks of them', () => {
    for (const part of ['result', 'failures', 'rollouts'])
      expect(textOf(sectionOf(page, part))).toMatch(/T0 (· )?warm-up/);
    // each chart that has tiers
    expect(sectionOf(page, 'learning').match(/warm-up/g)!.length).toBeGreaterThan(2);
  });

  test('tells how to use the adapter by what stands in the folder, and of a run without one that there is nothing to use', async () => {
    const { submission } = readRun(folder);
    const file = `adapters/${submission!.adapter}.gguf`;
    const uses = new Map(
      [...page.matchAll(/<pre class="copyable" data-use="([\w-]+)">([^<]*)</g)].map(
        ([, id, text]) => [id, text],
      ),
    );
    expect([...uses.keys()]).toEqual(['cli', 'node', 'llama-server', 'modelfile', 'ollama']);
    expect(uses.get('cli')).toContain('npx isopro-native generate --adapter . ');
    for (const id of ['node', 'llama-server', 'modelfile']) expect(uses.get(id)).toContain(file);
    expect(uses.get('modelfile')).toBe(`FROM ./MODEL.gguf\nADAPTER ./${file}\n`);
    expect(textOf(sectionOf(page, 'use'))).not.toContain('--task');
    const asked = sectionOf(
      await reportOf(
        await build('behind', { settings: { sampling: { examples: 5, system: 'Be brief.' } } }),
      ),
      'use',
    );
    expect(asked).toMatch(/generate [^<]*--adapter \. --task \S+ --max-tokens/);
    expect(textOf(asked)).toContain(
      'In training, a system message and 5 solved examples came before every question',
    );
    const failing = sectionOf(await reportOf(await build('nothing', { skill: 0 })), 'use');
    expect(textOf(failing)).toMatch(/there is nothing to use/);
    expect(failing).not.toContain('<pre');
  });

  test('shows what the monitor and the gate did', () => {
    const text = textOf(sectionOf(page, 'rules'));
    expect(text).toMatch(/3 R1 fired high: 0\.00700 against 0\.00500/);
    expect(text).toMatch(/6 remedy for R1 failed set_lr .*the rate had changed/);
    expect(text).toMatch(/5 gate: back to an earlier adapter dev accuracy fell/);
  });

  test('holds nothing that is loaded from elsewhere, and one script that its policy names by hash', () => {
    const links = [...page.matchAll(/(?:src|href|action)\s*=\s*"([^"]*)"/g)].map(([, url]) => url!);
    expect(links.filter((url) => !url.startsWith('data:') && !url.startsWith('#'))).toEqual([]);
    expect(page).not.toMatch(/@import|url\(["']?(?!#)/);
    expect(page.match(/<script/g)).toHaveLength(1);
    expect(page).toMatch(/content="default-src &#39;none&#39;; script-src &#39;sha256-/);
  });

  test('is the same again, byte by byte', async () => {
    expect(await reportOf(folder)).toBe(page);
  });

  test('shows what the verdicts in the log give, whatever sums the run wrote beside them, or beside the log', async () => {
    const claimed = {
      mean: 0.97,
      low: 0.95,
      high: 0.99,
      n: 160,
      none: 0,
      valid: true,
      byTier: Object.fromEntries(
        readRun(folder).tiers.map(({ id }) => [
          id,
          { mean: 0.97, low: 0.95, high: 0.99, n: 20, none: 0, passed: 19 },
        ]),
      ),
    };
    const claiming = await build('claiming', { claimed });
    const row = (method: string): object => ({
      method,
      test: claimed,
      k: 1,
      tokens: 1,
      seconds: 1,
      note: '',
    });
    writeFileSync(
      path.join(claiming, 'comparison.json'),
      JSON.stringify({ methods: [row('isopro'), row('zero-shot')], skipped: [] }),
    );
    const [own, honest] = [readRun(claiming), readRun(folder)];
    expect(own.evaluations).toEqual(honest.evaluations);
    expect([
      own.policies,
      own.iterations,
      own.methods!.methods.map(({ test: { mean } }) => mean),
    ]).toEqual([
      honest.policies,
      honest.iterations,
      [testEvaluation(honest, 'after')!.summary.mean, 0.97],
    ]);
    const shown = await reportOf(claiming);
    for (const id of ['result', 'learning', 'rules'])
      expect(textOf(sectionOf(shown, id))).toBe(textOf(sectionOf(page, id)));
    const { folder: _, runId: __, startedAt: ___, ...listed } = summariseRun(claiming);
    expect(summariseRun(folder)).toMatchObject(listed);
  });

  test('says who vouches for the log', () => {
    expect(textOf(page)).toContain('log complete, signed by the run itself');
    expect(textOf(sectionOf(page, 'integrity'))).toMatch(/could have signed any history/);
  });

  test('has no empty time line where no rule fired and the gate was idle', async () => {
    const quiet = sectionOf(await reportOf(await build('quiet', { iterations: 2 })), 'rules');
    expect(quiet).not.toContain('<svg');
    expect(textOf(quiet)).toMatch(/No rule fired in 2 evaluations/);
  });

  test('names no folder of this machine', () => {
    expect(page).not.toContain(root);
  });
});

describe('a run that is not whole', () => {
  test.each([
    ['start', /test set has not been evaluated.*no records of any iteration.*holds no rollouts/s],
    ['before', /The run has not ended.*earliest_start/s],
    ['iterations', /The run has not ended.*Rollouts.*300 of 672/s],
  ] as const)('killed after: %s', async (until, expected) => {
    const text = textOf(await reportOf(await build(`killed-${until}`, { until, iterations: 4 })));
    expect(text).toMatch(expected);
    expect(text).toContain('log consistent, run not ended');
  });

  test('with a log cut off in the middle: what can be read, and that the rest is missing', async () => {
    const folder = await build('cut');
    truncateSync(path.join(folder, 'log.sqlite'), 300_000);
    rmSync(path.join(folder, 'log.sqlite-wal'), { force: true });
    const text = textOf(await reportOf(folder));
    expect(text).toMatch(/the log could not be read completely/);
    expect(text).toMatch(/log missing or damaged/);
  });

  test('with bytes in its log that are no database, or without a log', async () => {
    const folder = await build('garbage', { until: 'start' });
    writeFileSync(path.join(folder, 'log.sqlite'), 'not a database at all'.repeat(1000));
    expect(textOf(await reportOf(folder))).toMatch(
      /could not be read completely.*The test set has not been evaluated/s,
    );
    rmSync(path.join(folder, 'log.sqlite'));
    expect(textOf(await reportOf(folder))).toMatch(/log missing or damaged/);
  });

  test('with a record changed afterwards: the badge says so', async () => {
    const folder = await build('changed');
    const { default: Database } = await import('better-sqlite3');
    const db = new Database(path.join(folder, 'log.sqlite'));
    const triggers = db
      .prepare("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")
      .all() as { name: string; sql: string }[];
    for (const { name } of triggers) db.exec(`DROP TRIGGER "${name}"`);
    db.prepare(
      'UPDATE log SET payload = replace(payload, \'"fail"\', \'"pass"\') WHERE gseq = 1',
    ).run();
    for (const { sql } of triggers) db.exec(sql);
    db.close();
    const page = await reportOf(folder);
    expect(page).toContain('<span class="badge bad">log tampered</span>');
    expect(textOf(page)).toContain('Nothing on this page is reliable.');
  });

  test('without a manifest: an error, since there is no run to speak of', async () => {
    await expect(writeReport(at('nowhere'))).rejects.toMatchObject({ code: 'RUN_NOT_FOUND' });
  });

  test('written where nothing can be written: WRITE_FAILED', async () => {
    await expect(
      writeReport(at('whole'), { file: at('no-such-folder/report.html') }),
    ).rejects.toMatchObject({ code: 'WRITE_FAILED' });
  });
});

describe('hostile texts', () => {
  test('are visible, and never markup', async () => {
    const hostileTiers = HOSTILE.map((id, i) => ({
      id,
      title: HOSTILE[Math.max(0, i - 1)]!,
      trains: i % 2 === 0,
    }));
    const text = HOSTILE.join('\n');
    const folder = await build('hostile', {
      tiers: hostileTiers,
      iterations: 2,
      rollouts: 4,
      problems: 2,
      reply: (i) => `${i} ${text}`,
      prompt: text,
      verdict: { results: { found: text, expected: text } },
      settings: { note: text, '<b>': text },
      names: {
        model: HOSTILE[0],
        task: HOSTILE[1],
        policy: HOSTILE[2],
        stopped: HOSTILE[3],
        violation: HOSTILE[6],
      },
    });
    writeFileSync(
      path.join(folder, 'comparison.json'),
      JSON.stringify({
        methods: [
          {
            method: HOSTILE[0],
            test: { mean: 0.5, low: 0.4, high: 0.6, n: 3, byTier: {} },
            k: 1,
            tokens: 3,
            seconds: 1,
            note: HOSTILE[1],
          },
        ],
        skipped: [{ method: HOSTILE[2], reason: HOSTILE[3] }],
      }),
    );
    // a title that is the id is none
    expect(readRun(folder).tiers.map(({ title }) => title)).toEqual(['', ...HOSTILE.slice(0, -1)]);
    const page = await reportOf(folder);
    expect(page.match(/<script/g)).toHaveLength(1);
    expect(page).not.toMatch(/<(img|iframe|base|textarea|pre[^>]*on)/i);
    expect(page.match(/<meta/g)).toHaveLength(4);
    expect(page.match(/<link/g)).toHaveLength(1);
    expect(page).not.toMatch(/(?![\t\n])[\p{Cc}\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/u);
    expect(page).toContain('&lt;/script&gt;&lt;script&gt;globalThis.broken = true');
    expect(page).toContain('[U+202E] answer: passed [U+202C]');
    expect(page).toContain('\u241b[2J');
    const [rollout] = /<details class="rollout"[\s\S]*?<\/details>/.exec(page)!;
    expect(rollout.match(/<pre>/g)).toHaveLength(4);
    expect(rollout.split(escapeHtml(text))).toHaveLength(5); // reply, result, expected, prompt
    expect(sectionOf(page, 'methods')).toContain('not measured');
  });

  test('in charts are text', () => {
    const { text } = svgChart(
      'x',
      { width: 200, height: 100 },
      {
        title: { text: HOSTILE[0] },
        xAxis: { type: 'category', data: HOSTILE.map((name) => chartLabel(name, 80)) },
        yAxis: {},
        series: [{ type: 'bar', name: HOSTILE[2], data: [1] }],
      },
    );
    expect(text).not.toMatch(/<(script|img|svg onload)/);
    expect(text.match(/<\/svg>/g)).toHaveLength(1);
    expect(HOSTILE.map((name) => chartLabel(name, 40)).filter((name) => name in {})).toEqual([]);
    const polluted: string[] = [];
    for (const key in {}) polluted.push(key);
    expect(polluted).toEqual([]);
  });

  test('keep their letters', () => {
    expect(visible('عربي 中文 🙂\ttab\nline')).toBe('عربي 中文 🙂\ttab\nline');
    expect(visible('\ud800')).toBe('\ufffd');
    expect(escapeHtml(`<a b='c'>"&`)).toBe('&lt;a b=&#39;c&#39;&gt;&quot;&amp;');
    expect(html`<p>${'<'}${html`<b>${'&'}</b>`}${['x', null, false]}</p>`.text).toBe(
      '<p>&lt;<b>&amp;</b>x</p>',
    );
    expect(label('a'.repeat(50), 10)).toBe(`${'a'.repeat(9)}…`);
  });
});

describe('a text task', () => {
  test('shows the reply, what it came to beside what was right, why it fails, and the prompt', async () => {
    const page = await reportOf(
      await build('text', {
        iterations: 1,
        rollouts: 8,
        reply: () => 'SELECT name FROM films',
        prompt: 'films(name TEXT)',
        skill: 0,
        names: { violation: 'result' },
        verdict: { results: { found: "'Up' | 1", expected: "'Up' | 2" }, score: 0.25 },
      }),
    );
    const [, rollout] = /<details class="rollout"([\s\S]*?)<\/details>/.exec(page)!;
    const text = textOf(rollout!);
    expect(text).toMatch(
      /reply SELECT name FROM films prompt films\(name TEXT\) verdict .*Job A breaks the rule of result/,
    );
    expect(text).toMatch(/score 0\.250 result &#39;Up&#39; \| 1 expected &#39;Up&#39; \| 2/);
  });

  test('a reply of 100 kB is shortened, whatever it is made of', async () => {
    for (const [at, unit] of ['x', '<', '\u202e', '\u0000', '👩‍👩'].entries()) {
      const page = await reportOf(
        await build(`long-reply-${at}`, {
          iterations: 1,
          rollouts: 1,
          tiers: [{ id: 'T' }],
          problems: 1,
          reply: () => unit.repeat(100_000),
        }),
      );
      expect(Buffer.byteLength(page)).toBeLessThan(500_000);
      expect(page).toMatch(/… \d+ further characters are in the log, record \d+/);
      expect(page).not.toContain('\u202e');
    }
  });
});

test('a run of one tier says nothing twice: no column, chart or caption by tier', async () => {
  const one = await reportOf(await build('one-tier', { tiers: [{ id: 'all' }], rollouts: 4 }));
  const several = await reportOf(
    await build('two-tiers', { tiers: [{ id: 'one' }, { id: 'two' }], rollouts: 4 }),
  );
  expect(several).toMatch(/, by tier[^]*mean of all tiers[^]*share of each tier/);
  expect(
    one.match(/by tier|mean of all tiers|share of each tier|mix of tiers|over tiers/gi),
  ).toBeNull();
  expect(one).toMatch(/Dev problems solved<[^]*Replay buffer</);
});

describe('size', () => {
  test('thousands of long rollouts stay below 2 MB, each cut text says where the rest is', async () => {
    const folder = await build('large', {
      iterations: 5,
      rollouts: 90,
      reply: (i) => `${i} ${'<&"long">'.repeat(400)}`,
      prompt: 'prompt '.repeat(500),
    });
    const { bytes, rollouts, file } = await writeReport(folder);
    expect(bytes).toBeLessThan(REPORT_BYTES);
    expect(bytes).toBeGreaterThan(REPORT_BYTES / 4);
    expect(rollouts).toBe(300);
    expect(readFileSync(file, 'utf8')).toMatch(/further characters are in the log, record \d+/);
  });

  test('so do many iterations of many tiers with long names', async () => {
    const tiers = Array.from({ length: 40 }, (_, i) => ({
      id: `tier number ${i} ${'&'.repeat(200)}`,
    }));
    const { bytes } = await writeReport(
      await build('long', { tiers, iterations: 80, rollouts: 1, problems: 1 }),
    );
    expect(bytes).toBeLessThan(REPORT_BYTES);
  });
});

test('a line of a rollout says its question: what not all prompts of its tier begin and end with', () => {
  const questions = new Questions();
  const asked = (question: string): string =>
    `<|user|>\nWhat is this about? Answer with one word.\n${question}\n<|assistant|>\n`;
  questions.add('a', asked('My card was charged twice.'));
  expect(questions.of('a', asked('My card was charged twice.'))).toBe(
    asked('My card was charged twice.'),
  ); // nothing tells what is shared
  questions.add('a', asked('My parcel   has\nnot come'));
  questions.add('b', 'another tier');
  expect(questions.of('a', asked('My card was charged twice.'))).toBe('My card was charged twice.');
  expect(questions.of('a', asked('My parcel   has\nnot come'))).toBe('My parcel has not come');
  questions.add('a', asked('Where is it?'));
  expect(questions.of('a', asked('My parcel   has\nnot come'))).toBe('My parcel has not come');
  questions.add('d', `${'shared words '.repeat(9)}apples are shared ${'words and'.repeat(9)}`);
  questions.add('d', `${'shared words '.repeat(9)}pears are shared ${'words and'.repeat(9)}`);
  expect(
    questions.of('d', `${'shared words '.repeat(9)}pears are shared ${'words and'.repeat(9)}`),
  ).toBe('pears');
  // a question that is a solved example of the others stands behind another one
  const behind = (example: string, question: string): string => `${example}\nyes\n${question}\n`;
  for (const question of ['two?', 'three?', 'four?']) questions.add('g', behind('one?', question));
  questions.add('g', behind('five?', 'one?'));
  expect(questions.of('g', behind('one?', 'three?'))).toBe('three?');
  questions.add('c', 'same same');
  questions.add('c', 'same');
  expect(questions.of('c', 'same')).toBe('same');
  // a shared word may be a whole document: it is neither shown nor looked through again from each
  // of its places
  const document = 'x'.repeat(60_000);
  for (const question of ['one', 'two']) questions.add('e', `${document} ${question}`);
  const started = process.cpuUsage();
  expect(questions.of('e', `${document} one`)).toBe('one');
  expect(processorMs(started)).toBeLessThan(1_000);
  for (const question of ['one', 'two']) questions.add('f', document + question + document);
  expect(questions.of('f', `${document}one${document}`)).toBe(
    `${'x'.repeat(200)}one${'x'.repeat(200)}`,
  );
});

describe('the rollouts that are shown', () => {
  const places = Array.from({ length: 4000 }, (_, i) => ({
    gseq: i,
    iteration: 1 + (i % 4),
    tier: `T${i % 5}`,
    verdict: i % 101 === 0 ? 'pass' : 'fail',
  }));

  test('are as many of every kind as there are, up to an even share', () => {
    const chosen = new Set(chooseRollouts(places, 300));
    expect(chosen.size).toBe(300);
    const passed = places.filter(({ gseq, verdict }) => verdict === 'pass' && chosen.has(gseq));
    expect(passed).toHaveLength(40); // all there are
    const failed = new Map<string, number>();
    for (const { gseq, iteration, tier, verdict } of places)
      if (verdict === 'fail' && chosen.has(gseq))
        failed.set(`${tier}/${iteration}`, (failed.get(`${tier}/${iteration}`) ?? 0) + 1);
    expect([...failed.values()].every((n) => n === 13)).toBe(true);
  });

  test('are all of them where they are few, and a choice of strata where those are too many', () => {
    expect(chooseRollouts(places.slice(0, 20), 300)).toEqual(
      places.slice(0, 20).map(({ gseq }) => gseq),
    );
    const many = Array.from({ length: 1000 }, (_, i) => ({
      gseq: i,
      iteration: i,
      tier: 'T',
      verdict: 'fail',
    }));
    expect(new Set(chooseRollouts(many, 300)).size).toBe(300);
    expect(chooseRollouts([], 300)).toEqual([]);
  });
});

test('a copy of the folder gives the same page', async () => {
  cpSync(at('whole'), at('copy'), { recursive: true });
  expect(await reportOf(at('copy'))).toBe(readFileSync(at('whole/report.html'), 'utf8'));
});
