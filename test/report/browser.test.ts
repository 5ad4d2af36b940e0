/**
 * The report in a real browser: nothing requested, nothing complained of, readable in light, dark
 * and print. Screenshots go to $ISOPRO_SCREENSHOTS.
 */
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { witnessInProcess } from '../../bench/log.js';
import { openGate, decideGate, Registry } from '../../src/registry/index.js';
import { writeRegistryPage } from '../../src/report/registry-page.js';
import { writeReport } from '../../src/report/write-report.js';
import { writeSyntheticAdapter } from '../models/adapter.js';
import { Browser, findChromium } from '../models/browser.js';
import { HOSTILE } from '../models/hostile.js';
import { writeRunFolder } from '../models/run-folder.js';
import { writeSyntheticModel } from '../models/synthetic.js';

const executable = findChromium();
if (executable === null)
  console.warn(
    'no Chromium on the PATH: the report is not opened in a browser (apt-get install chromium)',
  );

/** Contrast ratio of WCAG 2.2 §1.4.3 between two `rgb(r, g, b)`. */
function contrast(a: string, b: string): number {
  const luminance = (color: string): number => {
    const [r, g, blue] = color
      .match(/\d+/g)!
      .slice(0, 3)
      .map((text) => {
        const c = Number(text) / 255;
        return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
      }) as [number, number, number];
    return 0.2126 * r + 0.7152 * g + 0.0722 * blue;
  };
  const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y) as [number, number];
  return (high + 0.05) / (low + 0.05);
}

(process.platform === 'win32' ? test.skip : test)(
  'what a browser leaves running does not write to its profile after it was closed',
  async () => {
    const folder = mkdtempSync(path.join(tmpdir(), 'isopro-browser-'));
    const program = path.join(folder, 'browser');
    const begun = path.join(folder, 'begun');
    const script = `for flag; do case $flag in --user-data-dir=*) profile=\${flag#*=} ;; esac; done
(while mkdir -p "$profile/$((i += 1))"; do touch "${begun}"; done) 3<&- 4>&- &
exec sleep 60`;
    writeFileSync(program, `#!/bin/sh\n${script}\n`, { mode: 0o755 });
    const browser = new Browser(program);
    while (!existsSync(begun)) await setTimeout(10);
    await browser.close();
    await setTimeout(100);
    expect(existsSync(browser.profile)).toBe(false);
    rmSync(folder, { recursive: true });
  },
);

(executable === null ? describe.skip : describe)('in headless Chromium', () => {
  let root: string;
  let browser: Browser;
  let url: string;
  let hostile: string;
  beforeAll(async () => {
    root = mkdtempSync(path.join(tmpdir(), 'isopro-browser-'));
    process.env.ISOPRO_HOME = path.join(root, 'home');
    const write = async (name: string, options: object): Promise<string> => {
      const folder = path.join(root, name);
      await writeRunFolder({ folder, home: process.env.ISOPRO_HOME!, ...options });
      return pathToFileURL((await writeReport(folder)).file).href;
    };
    url = await write('plain', {
      reply: (i: number) =>
        i < 12 ? 'the needle in this haystack' : `reply ${i}\n<answer>A: 0</answer>`,
    });
    hostile = await write('hostile', {
      runId: 'cd'.repeat(16),
      tiers: HOSTILE.map((id) => ({ id })),
      iterations: 2,
      rollouts: 4,
      problems: 2,
      reply: () => HOSTILE.join('\n'),
      prompt: HOSTILE.join('\n'),
      verdict: { results: { found: HOSTILE.join('\n'), expected: 'w'.repeat(500) } },
      names: {
        model: HOSTILE[0],
        task: HOSTILE[1],
        policy: HOSTILE[2],
        stopped: HOSTILE[3],
        violation: HOSTILE[6],
      },
    });
    browser = new Browser(executable!);
  }, 240_000);
  afterAll(async () => {
    await browser.close();
    delete process.env.ISOPRO_HOME;
    rmSync(root, { recursive: true, force: true });
  });

  const keep = (name: string, bytes: Buffer): void => {
    const folder = process.env.ISOPRO_SCREENSHOTS;
    if (folder === undefined) return;
    mkdirSync(folder, { recursive: true });
    writeFileSync(path.join(folder, name), bytes);
  };

  test('a page that does ask for something is noticed', async () => {
    const bad = path.join(root, 'bad.html');
    writeFileSync(
      bad,
      '<!doctype html><img src="http://127.0.0.1:9/x.png"><script>console.error("spoke"); nothing.there</script>',
    );
    await browser.open(pathToFileURL(bad).href);
    expect(browser.requests).toContain('http://127.0.0.1:9/x.png');
    expect(browser.complaints.join()).toMatch(
      /spoke.*(Uncaught|ReferenceError)|(Uncaught|ReferenceError).*spoke/,
    );
  });

  test.each(['light', 'dark'] as const)(
    '%s: nothing is requested but the file, nothing is complained of, text has contrast',
    async (scheme) => {
      await browser.emulate('screen', scheme);
      for (const width of [1000, 390]) {
        await browser.open(url, width);
        expect(
          browser.requests.filter((each) => each !== url && !each.startsWith('data:')),
        ).toEqual([]);
        expect(browser.complaints).toEqual([]);
        expect(
          await browser.evaluate<number>('document.documentElement.scrollWidth'),
        ).toBeLessThanOrEqual(width);
        keep(`${scheme}-${width}.png`, await browser.screenshot());
      }
      const colors = await browser.evaluate<Record<string, string>>(`(() => {
      const probe = document.body.appendChild(document.createElement('i'));
      const found = {};
      for (const name of ['paper', 'panel', 'ink', 'muted', 'good', 'fair', 'bad', 'accent']) {
        probe.style.color = 'var(--' + name + ')';
        found[name] = getComputedStyle(probe).color;
      }
      return found;
    })()`);
      for (const text of ['ink', 'muted', 'good', 'fair', 'bad', 'accent'])
        for (const ground of ['paper', 'panel'])
          expect([text, ground, contrast(colors[text]!, colors[ground]!)]).toEqual([
            text,
            ground,
            expect.any(Number),
          ]);
      for (const text of ['ink', 'muted', 'good', 'fair', 'bad', 'accent'])
        for (const ground of ['paper', 'panel'])
          expect(contrast(colors[text]!, colors[ground]!)).toBeGreaterThan(4.5);
      expect(contrast(colors.paper!, 'rgb(0, 0, 0)') > 10).toBe(scheme === 'light');
    },
  );

  test('at 400 px nothing lies outside the view, opened or not, whatever the texts', async () => {
    for (const page of [url, hostile]) {
      await browser.open(page, 400);
      await browser.evaluate(
        'document.querySelectorAll("details").forEach((each, i) => { each.open = i < 20 })',
      );
      const outside = await browser.evaluate<
        string[]
      >(`[...document.body.querySelectorAll('*')].filter((each) =>
        each.closest('.chart') === null || each.matches('.chart')).filter((each) => {
        const { left, right, width } = each.getBoundingClientRect();
        return width > 0 && (left < -0.5 || right > 400.5);
      }).map((each) => each.tagName + '.' + each.className)`);
      expect(outside).toEqual([]);
      expect(
        await browser.evaluate<number>('document.documentElement.scrollWidth'),
      ).toBeLessThanOrEqual(400);
      keep(page === url ? '400.png' : 'hostile-400.png', await browser.screenshot());
    }
  });

  test('the page of a registry: nothing is asked for, nothing lies outside the view, hostile texts stay texts', async () => {
    const place = path.join(root, 'registry');
    const shape = writeSyntheticModel(path.join(root, 'model.gguf'), { architecture: 'llama' });
    writeSyntheticAdapter(path.join(root, 'adapter.gguf'), shape, {
      seed: 1n,
      rank: 2,
      targets: ['attn_q'],
    });
    const registry = new Registry({ folder: place, signer: witnessInProcess(root) });
    const names = {
      base: { name: HOSTILE[0]!, sha256: 'ba'.repeat(32) },
      dataset: { description: HOSTILE[1]!, sha256: null, rows: 3 },
    };
    const { id } = await registry.publish({ file: path.join(root, 'adapter.gguf'), ...names });
    const slot = { scenario: 's'.repeat(90), role: 'r'.repeat(90) };
    const { gate, seed } = await openGate(registry, { slot, challenger: id });
    const trials = Array.from({ length: 20 }, (_, i) =>
      [id, 'base'].map((version, side) => ({
        version,
        task: 't',
        epoch: '1',
        verifier: 'v',
        problem: `p${i}`,
        score: 1 - side,
      })),
    ).flat();
    await decideGate(registry, gate, { seed: seed!, trials });
    await registry.move({ slot, id, gate, reason: HOSTILE.join(' ').slice(0, 2000) });
    await registry.rollback({ slot, reason: 'x'.repeat(400) });
    const file = path.join(root, 'registry.html');
    await writeRegistryPage(registry, file, {
      title: HOSTILE[0]!,
      stages: [{ stage: HOSTILE[2]!, seconds: 1, said: HOSTILE[3]! }],
    });
    for (const scheme of ['light', 'dark'] as const)
      for (const width of [1000, 400]) {
        await browser.open(pathToFileURL(file).href, width);
        await browser.emulate('screen', scheme);
        expect(
          browser.requests.filter(
            (each) => each !== pathToFileURL(file).href && !each.startsWith('data:'),
          ),
        ).toEqual([]);
        expect(browser.complaints).toEqual([]);
        expect(
          await browser.evaluate<number>('document.documentElement.scrollWidth'),
        ).toBeLessThanOrEqual(width);
        keep(`registry-${scheme}-${width}.png`, await browser.screenshot());
      }
    expect(await browser.evaluate('globalThis.broken ?? null')).toBeNull();
    expect(
      await browser.evaluate(
        'document.querySelectorAll("img, iframe, base, textarea, script").length',
      ),
    ).toBe(1);
    expect(await browser.evaluate('document.querySelectorAll("#evidence svg").length')).toBe(1);
    await browser.emulate('screen', 'light');
  });

  test('a command can be copied', async () => {
    await browser.open(url);
    await browser.evaluate('document.querySelector("pre.copyable + button").click()');
    expect(await browser.evaluate<string>('String(getSelection()).trim()')).toBe(
      (await browser.evaluate<string>('document.querySelector("pre.copyable").textContent')).trim(),
    );
    expect(
      await browser.evaluate<string>('document.querySelector("pre.copyable + button").textContent'),
    ).toMatch(/copied|keyboard/);
    expect(browser.complaints).toEqual([]);
  });

  test('search and filters show what they name', async () => {
    await browser.open(url);
    const shown = 'document.querySelectorAll("details.rollout:not([hidden])").length';
    expect(await browser.evaluate(shown)).toBe(300);
    await browser.evaluate('query.value = "NEEDLE hay"; query.dispatchEvent(new Event("input"))');
    const needles = await browser.evaluate<number>(
      '[...document.querySelectorAll("details.rollout")].filter((e) => e.textContent.includes("needle in this hay")).length',
    );
    expect(needles).toBeGreaterThan(0);
    expect(needles).toBeLessThan(13);
    expect(await browser.evaluate(shown)).toBe(needles);
    expect(await browser.evaluate('found.textContent')).toBe(`${needles} shown`);
    await browser.evaluate(
      'query.value = ""; document.getElementById("tier").value = "T1"; document.getElementById("verdict").value = "pass"; ' +
        'document.getElementById("tier").dispatchEvent(new Event("change"))',
    );
    const kinds = await browser.evaluate<string[]>(
      '[...document.querySelectorAll("details.rollout:not([hidden])")].map((e) => e.dataset.tier + e.dataset.verdict)',
    );
    expect(kinds.length).toBeGreaterThan(0);
    expect(new Set(kinds)).toEqual(new Set(['T1pass']));
    await browser.evaluate('document.querySelector("details.rollout:not([hidden])").open = true');
    keep('open.png', await browser.screenshot());
  });

  test('print is black on white even where the screen is dark, without tools, and has pages', async () => {
    await browser.emulate('print', 'dark');
    await browser.open(url);
    expect(await browser.evaluate('getComputedStyle(document.body).backgroundColor')).toBe(
      'rgb(255, 255, 255)',
    );
    expect(
      await browser.evaluate('getComputedStyle(document.querySelector(".tools")).display'),
    ).toBe('none');
    keep('print.png', await browser.screenshot());
    const pdf = await browser.pdf();
    expect(pdf.subarray(0, 5).toString()).toBe('%PDF-');
    keep('print.pdf', pdf);
    await browser.emulate('screen', 'light');
  });

  test('hostile texts stay texts', async () => {
    await browser.open(hostile);
    expect(
      browser.requests.filter((each) => each !== hostile && !each.startsWith('data:')),
    ).toEqual([]);
    expect(browser.complaints).toEqual([]);
    expect(await browser.evaluate('globalThis.broken ?? null')).toBeNull();
    expect(
      await browser.evaluate(
        'document.querySelectorAll("img, iframe, base, textarea, script").length',
      ),
    ).toBe(1);
    expect(
      await browser.evaluate<string>('document.querySelector("details.rollout pre").textContent'),
    ).toContain('</script><script>globalThis.broken = true</script>');
    keep('hostile.png', await browser.screenshot());
  });
});
