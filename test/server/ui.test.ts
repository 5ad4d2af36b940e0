/**
 * The page as a person uses it, in a real browser: a run is started from the form, watched, and
 * read; its adapter is promoted, asked, and rolled back; what a log holds stays a text. Screenshots
 * of every page go to $ISOPRO_SCREENSHOTS.
 */
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { Browser, BrowserContext, Page } from 'playwright-core';
import { publishRun } from '../../src/operations/publish.js';
import { Registry } from '../../src/registry/index.js';
import { resolveSettings } from '../../src/training/settings.js';
import { MAIN, runCli } from '../cli/run-cli.js';
import { findChromium } from '../models/browser.js';
import { HOSTILE } from '../models/hostile.js';
import { writeRunFolder } from '../models/run-folder.js';
import { adapterFile } from '../models/server.js';

const executable = findChromium();
const built = existsSync('dist/web/index.html');
if (executable === null)
  console.warn(
    'no Chromium on the PATH: the page is not opened in a browser (apt-get install chromium)',
  );
if (!built) console.warn('the page is not built: npm run build:web');

/** Patience, not speed: a busy machine takes as long as it takes. */
const PATIENCE_MS = 240_000;

/** Of a table, as it is drawn. */
interface Cell {
  readonly text: string;
  readonly left: number;
  readonly right: number;
  /** Pixels of its content that are not seen. */
  readonly beyond: number;
  /** In quotes. */
  readonly label: string;
}
const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

(executable === null || !built ? describe.skip : describe)('the page in Chromium', () => {
  const root = mkdtempSync(path.join(tmpdir(), 'isopro-ui-'));
  const runs = path.join(root, 'runs');
  const home = path.join(root, 'home');
  const registry = new Registry({ folder: path.join(home, 'registry'), witness: false, home });
  let server: ChildProcess;
  let browser: Browser;
  let context: BrowserContext;
  let page: Page;
  let address: string;
  const complaints: string[] = [];
  const foreign: string[] = [];
  const went: string[] = [];

  beforeAll(async () => {
    const small = { iterations: 2, rollouts: 3, problems: 2 };
    await writeRunFolder({ folder: path.join(runs, 'plain'), home, ...small });
    await writeRunFolder({
      folder: path.join(runs, 'other'),
      home,
      ...small,
      runId: 'cd'.repeat(16),
      seed: 7n,
      skill: 0.9,
    });
    await writeRunFolder({
      folder: path.join(runs, 'hostile'),
      home,
      ...small,
      runId: 'ef'.repeat(16),
      tiers: HOSTILE.slice(0, 6).map((id) => ({ id })),
      reply: () => HOSTILE.join('\n'),
      prompt: HOSTILE.join('\n'),
      verdict: { results: { found: HOSTILE.join('\n'), expected: 'w'.repeat(500) } },
      names: {
        model: HOSTILE[0]!,
        task: HOSTILE[1]!,
        policy: HOSTILE[2]!,
        stopped: HOSTILE[3]!,
        violation: HOSTILE[6]!,
      },
    });
    await registry.publish({
      file: adapterFile('ui', 8n),
      base: { name: 'another base', sha256: 'ba'.repeat(32) },
    });
    server = spawn(process.execPath, [MAIN, 'ui', '--json', '--runs', runs, '--no-open'], {
      env: { ...process.env, ISOPRO_HOME: home },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const [line] = (await once(createInterface(server.stdout!), 'line')) as [string];
    ({ address } = JSON.parse(line) as { address: string });
    const { chromium } = await import('playwright-core');
    browser = await chromium.launch({
      executablePath: executable!,
      args: ['--no-sandbox', '--disable-gpu'],
    });
    context = await browser.newContext({ viewport: { width: 1280, height: 850 } });
    context.setDefaultTimeout(PATIENCE_MS);
    // as over HTTP from another machine
    await context.addInitScript('delete Crypto.prototype.randomUUID');
    page = await context.newPage();
    page.on('request', (request) => {
      if (
        new URL(request.url()).origin !== new URL(address).origin &&
        !request.url().startsWith('data:')
      )
        foreign.push(request.url());
    });
    page.on('pageerror', (error) => void complaints.push(String(error.stack)));
    page.on('console', (message) => {
      // an answer such as 404 is said by the browser too; what is asked about is what the policy
      // forbids and what a script fails with
      if (message.type() === 'error' && !/Failed to load resource/.test(message.text()))
        complaints.push(message.text());
    });
  }, PATIENCE_MS);

  afterAll(async () => {
    await browser?.close();
    if (server !== undefined && server.exitCode === null) {
      const ended = once(server, 'exit');
      server.kill('SIGTERM');
      await ended;
    }
    rmSync(root, { recursive: true, force: true, maxRetries: 5 });
  }, PATIENCE_MS);

  const open = async (hash: string, heading: string | RegExp): Promise<void> => {
    await page.evaluate(`location.hash = ${JSON.stringify(hash)}`);
    await page.getByRole('heading', { level: 1, name: heading }).waitFor();
    went.push(hash);
  };

  test(
    'the address opens it, and the key is then in no address',
    async () => {
      await page.goto(address);
      await page.getByRole('link', { name: /tiny on scheduling plain/ }).waitFor();
      expect(page.url()).not.toContain('token');
      const stranger = await context.newPage();
      await stranger.goto(address.replace(/#.*/, ''));
      await stranger.getByRole('heading', { name: 'A key is needed' }).waitFor();
      await stranger.getByLabel('Key').fill('iso-of-nobody-and-nowhere');
      await stranger.getByRole('button', { name: 'Open' }).click();
      await stranger.getByRole('heading', { name: 'A key is needed' }).waitFor();
      await stranger.close();
    },
    PATIENCE_MS,
  );

  test(
    'hostile texts of a log stay texts on every page that shows them',
    async () => {
      await open('#/runs/hostile', /globalThis\.broken/);
      await open('#/runs/hostile/rollouts', /Rollouts of/);
      await page.locator('table.rollouts a').first().click();
      await page.getByRole('heading', { level: 1, name: /Rollout of/ }).waitFor();
      await page.getByRole('button', { name: 'Text' }).click();
      expect(await page.locator('pre').allTextContents()).toEqual(
        expect.arrayContaining([
          expect.stringContaining('</script><script>globalThis.broken = true</script>'),
        ]),
      );
      expect(await page.evaluate('globalThis.broken ?? null')).toBeNull();
      expect(
        await page.evaluate(
          'document.querySelectorAll("main img, main iframe, base, main script, main link, main textarea").length',
        ),
      ).toBe(0);
      expect(await page.evaluate('document.querySelectorAll("script").length')).toBe(1);
    },
    PATIENCE_MS,
  );

  let run: string;
  /** Addresses of one of each. */
  let rollout: string;
  let trajectory: string;
  test(
    'a run is started from the form, watched until it has ended, and read',
    async () => {
      await open('#/new', 'Start');
      // the defaults are those of the model's profile
      const { sampling } = resolveSettings({});
      await page
        .getByLabel('rollouts', { exact: true })
        .and(page.locator(`[placeholder="${sampling.rollouts}"]`))
        .waitFor();
      expect(await page.getByLabel('samples', { exact: true }).getAttribute('placeholder')).toBe(
        String(sampling.samples),
      );
      for (const [label, value] of [
        ['iterations', '1'],
        ['rollouts', '8'],
        ['samples', '2'],
        ['dev size', '1'],
        ['test size', '1'],
      ] as const)
        await page.getByLabel(label, { exact: true }).fill(value);
      await page.locator('summary', { hasText: /^sampling/ }).click();
      await page.getByLabel('max tokens', { exact: true }).fill('96');
      await page.getByText(/--iterations=1/).waitFor();
      expect(await page.locator('.command code').textContent()).toMatch(
        /isopro-native run .*--rollouts=8/,
      );
      await page.getByText(/About .* of memory/).waitFor();
      await page.getByRole('button', { name: 'Start', exact: true }).click();
      await page.waitForURL(/#\/runs\/job-/);
      run = decodeURIComponent(/#\/runs\/([^/?]+)/.exec(page.url())![1]!);
      await page.locator('.badge', { hasText: /^ended$/ }).waitFor();
      await page.getByText(/log complete, signed by/).waitFor();
      await page.getByRole('button', { name: 'Whole report' }).click();
      const report = page.frameLocator('iframe.report');
      await report.getByRole('heading', { level: 1 }).waitFor();
      expect(await page.locator('iframe.report').getAttribute('sandbox')).not.toContain(
        'same-origin',
      );
    },
    PATIENCE_MS,
  );

  test(
    'its job tells in words what happened',
    async () => {
      await open(`#/jobs/${run}`, /^Job /);
      const events = page.getByRole('table', { name: /events/ });
      await events.getByText('succeeded', { exact: true }).waitFor();
      await events.getByText(/^iteration 1: [\d.]+ % of the rollouts pass, \d+ steps?/).waitFor();
      expect(await events.textContent()).not.toContain('{"');
    },
    PATIENCE_MS,
  );

  test(
    'its rollouts are found, and a reply is coloured by what the model makes of each token',
    async () => {
      await open(`#/runs/${run}/rollouts`, /Rollouts of tiny on scheduling/);
      await page.getByRole('status').filter({ hasText: '8 rollouts' }).waitFor();
      await page.locator('table.rollouts a').first().click();
      await page.getByText(/mean log-probability .* over/).waitFor();
      const logged = readFileSync(path.join(runs, run, 'manifest.json'), 'utf8');
      expect(JSON.parse(logged).start.settings.sampling.rollouts).toBe(8);
      expect(await page.locator('pre.tokens .token').count()).toBeGreaterThan(5);
      rollout = new URL(page.url()).hash;
      await page.keyboard.press('j');
      await page.getByRole('heading', { level: 1, name: /Rollout of/ }).waitFor();
    },
    PATIENCE_MS,
  );

  test(
    'what changed in the reply to a dev problem between two iterations is read',
    async () => {
      await open(`#/runs/${run}/rollouts`, /Rollouts of tiny on scheduling/);
      const problem = page
        .getByRole('table', { name: /verdict of each dev problem/ })
        .getByRole('button');
      await problem.first().click();
      const diff = page.locator('.dev-diff');
      await diff.locator('pre.diff').waitFor();
      const [earlier, later] = [
        diff.getByLabel('the earlier iteration'),
        diff.getByLabel('the later iteration'),
      ];
      expect([await earlier.inputValue(), await later.inputValue()]).toEqual(['0', '1']);
      const parts = async (tag: string): Promise<string> =>
        (await diff.locator(`pre.diff ${tag}`).allTextContents()).join('');
      const [before, after] = [await parts(':is(del, span)'), await parts(':is(ins, span)')];
      expect(before).toMatch(/\S/);
      await later.selectOption('0');
      await diff.getByText('Both replies are the same.').waitFor();
      expect(await diff.locator('pre.diff').textContent()).toBe(before);
      await earlier.selectOption('1');
      expect([await parts(':is(del, span)'), await parts(':is(ins, span)')]).toEqual([
        after,
        before,
      ]);
    },
    PATIENCE_MS,
  );

  test(
    'its adapter is promoted, asked beside the base, held against a gate, and rolled back',
    async () => {
      const { name } = await publishRun(registry, path.join(runs, run));
      await open('#/play', 'Playground');
      await page.getByLabel('Right').selectOption(name); // no alias stands for it yet
      await open('#/adapters', 'Adapters');
      await page.getByRole('button', { name: `promote ${name}` }).click();
      const dialog = page.getByRole('dialog');
      await dialog.getByLabel(/By force/).check();
      await dialog.getByLabel('Reason, for the record').fill('the first one');
      await dialog.getByRole('button', { name: 'Promote', exact: true }).click();
      await dialog.getByText(/scheduling@champion is now/).waitFor();
      await dialog.getByRole('button', { name: 'close' }).click();
      await page
        .getByRole('cell', { name: /promotion, by force/ })
        .first()
        .waitFor();

      await open('#/play', 'Playground');
      await page.getByLabel('Right').selectOption('scheduling@champion');
      await page.getByLabel('Max tokens').fill('8');
      await page.getByRole('textbox', { name: 'Prompt', exact: true }).fill('Plan three jobs.');
      await page.getByRole('button', { name: 'Send' }).click();
      await page
        .getByText(/\d+ tokens? · .* ended by/)
        .nth(1)
        .waitFor(); // of both

      await open('#/adapters', 'Adapters');
      await page.getByRole('button', { name: /promote another base/ }).click();
      await dialog.getByLabel('Name that will point to it').fill('scheduling@champion');
      await dialog.getByLabel(/By a gate/).check();
      await dialog.getByLabel(/Max problems/).fill('1');
      await dialog.getByRole('button', { name: 'Promote', exact: true }).click();
      await dialog.locator('.fault').waitFor(); // it is of another base, and the answer says so
      await dialog.getByRole('button', { name: 'close' }).click();

      await page.getByRole('button', { name: 'roll back scheduling@champion' }).click();
      await dialog.getByRole('button', { name: 'Roll back' }).click();
      await page
        .getByRole('cell', { name: /^rollback/ })
        .first()
        .waitFor();
      const { state } = await registry.read();
      expect(state.aliases.map(({ alias, current }) => [alias, current])).toEqual([
        ['champion', null],
      ]);
      expect(state.gates.map(({ used }) => used)).toEqual([false]);
    },
    PATIENCE_MS,
  );

  test(
    'a truth run is found, its scores and a trajectory with its beliefs are read, and its report opens',
    async () => {
      const how = [
        '--domain',
        'sums-and-claims',
        '--mode',
        'direct',
        '--problems',
        '2',
        '--max-tokens',
        '8',
        '--threads',
        '1',
      ];
      const made = await runCli(
        ['truth', 'run', ...how, '--out', path.join(runs, 'truthful'), '--json'],
        { ISOPRO_HOME: home },
      );
      expect(made.code).toBe(0);
      const { results } = JSON.parse(made.stdout) as {
        results: { strategy: string; value: number | null }[];
      };
      await open('#/truth', 'Truth-seeking');
      await page.locator('table.list a[href="#/truth/truthful"]').click();
      await page.getByRole('heading', { level: 1, name: 'tiny' }).waitFor();
      const scores = page.getByRole('table', { name: 'scores' });
      for (const { strategy, value } of results)
        expect(
          await scores
            .getByRole('row')
            // not the one without noise
            .filter({ has: page.getByRole('cell', { name: strategy, exact: true }) })
            .textContent(),
        ).toContain(value?.toFixed(3) ?? '–');
      await page
        .getByRole('table', { name: 'trajectories' })
        .getByRole('link', { name: /Is this claim true or false/ })
        .first()
        .click();
      await page.getByRole('heading', { level: 1, name: 'Trajectory' }).waitFor();
      await page.getByRole('heading', { name: 'Belief in “True”' }).waitFor();
      trajectory = new URL(page.url()).hash;
      // before any word, and after its one step
      const drawn = await page.locator('svg.belief-line').getAttribute('aria-label');
      expect(drawn).toMatch(/^belief in the first option: [01]\.\d\d, [01]\.\d\d$/);
      went.push('#/truth/truthful');
      await page.getByRole('link', { name: 'The run' }).click();
      await page.getByRole('button', { name: 'Whole report' }).click();
      await page.frameLocator('iframe.report').getByRole('heading', { level: 1 }).waitFor();
      expect(await page.locator('iframe.report').getAttribute('sandbox')).not.toContain(
        'same-origin',
      );
    },
    PATIENCE_MS,
  );

  const PAGES = (): readonly (readonly [name: string, hash: string, there: string])[] => [
    ['runs', '#/runs', 'table.list'],
    ['run', '#/runs/plain', '.charts canvas'],
    ['rollouts', '#/runs/plain/rollouts', 'table.rollouts'],
    ['rollout', rollout, 'pre.tokens .token'],
    ['compare', '#/compare?a=plain&b=other', '.cards'],
    ['new', '#/new', '.command'],
    ['jobs', '#/jobs', 'table.list'],
    ['job', `#/jobs/${run}`, '.command'],
    ['adapters', '#/adapters', '.adapter'],
    ['play', '#/play', 'textarea'],
    ['truths', '#/truth', 'table.list'],
    ['truth', '#/truth/truthful', 'svg.belief-line'],
    ['trajectory', trajectory, 'svg.belief-line'],
  ];

  test.each(['light', 'dark'] as const)(
    '%s: axe finds no serious violation, and nothing lies outside 400 pixels',
    async (colorScheme) => {
      const folder = process.env.ISOPRO_SCREENSHOTS;
      if (folder !== undefined) mkdirSync(folder, { recursive: true });
      await page.emulateMedia({ colorScheme });
      const found: string[] = [];
      for (const [name, hash, there] of PAGES()) {
        await page.evaluate(`location.hash = ${JSON.stringify(hash)}`);
        await page.locator(there).first().waitFor();
        await page.locator('.waiting').waitFor({ state: 'detached' });
        for (const width of [1280, 400]) {
          await page.setViewportSize({ width, height: 850 });
          const wide = await page.evaluate<number>('document.documentElement.scrollWidth');
          if (wide > width) found.push(`${name} is ${wide} wide at ${width}`);
          if (folder !== undefined)
            await page.screenshot({
              path: path.join(folder, `${name}-${colorScheme}-${width}.png`),
              fullPage: true,
            });
        }
        await page.setViewportSize({ width: 1280, height: 850 });
        // not by a script element, which the policy would not let run
        await page.evaluate(`${AXE}; undefined`);
        const violations = await page.evaluate<{ id: string; impact: string; nodes: string[] }[]>(
          `axe.run(document, { iframes: false }).then(({ violations }) => violations.map(({ id, impact, nodes }) =>
          ({ id, impact, nodes: nodes.slice(0, 3).map(({ html, failureSummary }) => html.slice(0, 160) + ' ' + failureSummary) })))`,
        );
        for (const { id, impact, nodes } of violations)
          if (impact === 'serious' || impact === 'critical')
            found.push(`${name}: ${id} ${nodes.join(' | ')}`);
      }
      expect(found).toEqual([]);
    },
    2 * PATIENCE_MS,
  );

  test(
    'at 400 pixels the tables of runs, jobs and tiers show all of each row, and nothing has to be scrolled to',
    async () => {
      await page.setViewportSize({ width: 400, height: 850 });
      const labels: string[] = [];
      const outside: object[] = [];
      for (const [to, title] of [
        ['#/runs', 'Runs'],
        ['#/jobs', 'Jobs'],
        [`#/runs/${encodeURIComponent(run)}`, /tiny/],
        ['#/compare?a=plain&b=other', 'Two runs, paired'],
      ] as const) {
        await open(to, title);
        await page.locator('.stacked td[data-label]').first().waitFor();
        const cells = await page.evaluate<Cell[]>(
          `[...document.querySelectorAll('.stacked tbody td')].map((cell) => {
          const { left, right } = cell.getBoundingClientRect();
          const beyond = cell.scrollWidth - cell.clientWidth;
          return { text: cell.textContent, left, right, beyond, label: getComputedStyle(cell, '::before').content };
        })`,
        );
        labels.push(...cells.map(({ label }) => label));
        const isOutside = ({ left, right, beyond }: Cell): boolean =>
          left < 0 || right > 400 || (right <= left && right !== 0) || beyond > 0;
        outside.push(...cells.filter(isOutside).map((cell) => ({ to, ...cell })));
      }
      await page.setViewportSize({ width: 1280, height: 850 });
      for (const label of ['Change', 'Started', 'Gained, lost', 'A'])
        expect(labels).toContain(`"${label}"`);
      expect(outside).toEqual([]);
    },
    PATIENCE_MS,
  );

  test(
    'it can be gone through by keyboard, and says where one is',
    async () => {
      await open('#/runs', 'Runs');
      await page.getByRole('link', { name: 'Skip to content' }).focus();
      expect(await page.getByRole('link', { name: 'Skip to content' }).boundingBox()).toMatchObject(
        {
          x: 8,
          y: 8,
        },
      );
      await page.keyboard.press('Enter');
      expect(await page.evaluate('document.activeElement.id')).toBe('content');
      await open('#/runs/plain/rollouts', /Rollouts of/);
      await page.keyboard.press('/');
      expect(await page.evaluate('document.activeElement.type')).toBe('search');
      expect(await page.title()).toMatch(/^Rollouts of tiny on scheduling/);
    },
    PATIENCE_MS,
  );

  test('nothing was asked for from elsewhere, and no script failed or was refused', () => {
    expect(went.length).toBeGreaterThan(6);
    expect([foreign, complaints]).toEqual([[], []]);
  });
});
