// `npm run docs:picture -- RUN_FOLDER`: README's picture, docs/report.png, is the first screen of
// that run's report.html as Chromium shows it: what stands above the second heading.
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { Browser, findChromium } from '../dist/test/models/browser.js';

const [folder] = process.argv.slice(2);
const executable = findChromium();
if (folder === undefined)
  throw new Error('name the folder of a run: npm run docs:picture -- RUN_FOLDER');
if (executable === null)
  throw new Error('there is no Chromium on the PATH (apt-get install chromium)');

const WIDTH = 1000;
const browser = new Browser(executable);
try {
  await browser.open(pathToFileURL(path.resolve(folder, 'report.html')).href, WIDTH);
  await browser.emulate('screen', 'light');
  const height = await browser.evaluate(
    `Math.floor(document.querySelectorAll('h2')[1].getBoundingClientRect().top - 12)`,
  );
  const picture = await browser.screenshot({ x: 0, y: 0, width: WIDTH, height });
  writeFileSync(fileURLToPath(new URL('../docs/report.png', import.meta.url)), picture);
} finally {
  await browser.close();
}
