/** The frame of a report: one page that needs nothing from outside. */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { html, Html, type HtmlValue } from '../text/hostile-text.js';

interface Frame {
  readonly style: string;
  readonly script: string;
  /** Content-Security-Policy: this script alone runs, and nothing is fetched. */
  readonly policy: string;
}

let read: Frame | undefined;

function frame(): Frame {
  if (read !== undefined) return read;
  const asset = (name: string): string =>
    readFileSync(new URL(`../../../assets/report/${name}`, import.meta.url), 'utf8');
  const [style, script] = [asset('report.css'), asset('report.js')];
  const policy =
    `default-src 'none'; script-src 'sha256-${createHash('sha256').update(script).digest('base64')}'; style-src ` +
    `'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'`;
  return (read = { style, script, policy });
}

export function page(title: string, body: HtmlValue): string {
  const { style, script, policy } = frame();
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<link rel="icon" href="data:,">
<title>${title}</title>
<style>
${new Html(style)}</style>
</head>
<body>
<main>
${body}
</main>
<script>${new Html(script)}</script>
</body>
</html>
`.text;
}
