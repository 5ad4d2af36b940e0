/** The frame of a report: one page that needs nothing from outside. */
import { createHash } from 'node:crypto';
import { html, Html, type HtmlValue } from './hostile-text.js';

const STYLE = `
:root{color-scheme:light dark;--paper:#fff;--panel:#f6f7f9;--ink:#1b1f27;--muted:#5a6372;--rule:#d9dde4;--accent:#1f62c9;--on-accent:#fff;--good:#146c3c;--fair:#8a5a00;--bad:#b3261e;--mark:#fff2b8;
--s0:#1f62c9;--s1:#d1602f;--s2:#2b8a57;--s3:#8353b5;--s4:#b98900;--s5:#c43d74;--s6:#0f8a9d;--s7:#7a5a3c;--s8:#6b7686;--s9:#8da22b}
@media screen and (prefers-color-scheme:dark){:root{--paper:#14171c;--panel:#1d2128;--ink:#e7eaf0;--muted:#9fa8b7;--rule:#363d48;--accent:#6fa6ff;--on-accent:#0d1420;--good:#63cf93;--fair:#e3b04b;--bad:#ff8a80;--mark:#594700;
--s0:#6fa6ff;--s1:#f2915f;--s2:#5cc48c;--s3:#b890ea;--s4:#e0b53c;--s5:#ef7fab;--s6:#4fc3d5;--s7:#c09a75;--s8:#98a4b5;--s9:#bdd058}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif}
main{max-width:980px;margin:0 auto;padding:28px 20px 64px}
h1{font-size:25px;line-height:1.25;margin:0 0 4px;overflow-wrap:anywhere}h2{font-size:18px;margin:40px 0 6px}
p{margin:6px 0}.muted,figcaption{color:var(--muted)}figcaption,.note{font-size:13.5px}
figure{margin:14px 0 0}figure svg{display:block;width:100%;height:auto}figcaption{margin-top:6px;max-width:75ch}
.badge{display:inline-block;border:1.5px solid;border-radius:99px;padding:2px 12px;font-size:13.5px;font-weight:600;margin:8px 0}
.good{color:var(--good)}.fair{color:var(--fair)}.bad{color:var(--bad)}
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:10px;margin:16px 0}
.card{background:var(--panel);border-radius:8px;padding:10px 14px}.card b{display:block;font-size:21px;line-height:1.3;font-variant-numeric:tabular-nums}.card span{color:var(--muted);font-size:13px}
.wide{overflow-x:auto;margin-top:12px}table{border-collapse:collapse;font-size:13.5px;font-variant-numeric:tabular-nums;min-width:60%}
th,td{padding:4px 9px;border-bottom:1px solid var(--rule);text-align:right;vertical-align:top;white-space:nowrap}
th{color:var(--muted);font-weight:600;vertical-align:bottom}thead th{border-bottom-color:var(--muted)}
th:first-child,td:first-child,.text td,.text th{text-align:left}.text td{white-space:normal;overflow-wrap:anywhere}
td small{color:var(--muted);font-size:12px}tr.sum td{font-weight:600;border-top:1px solid var(--muted)}tr.group td{font-style:italic}td.lead{background:var(--panel)}
.policy{font-weight:500}.dense th,.dense td{padding:4px 7px}h3{font-size:15px;margin:24px 0 4px}
dl{display:grid;grid-template-columns:minmax(120px,max-content) 1fr;gap:2px 18px;font-size:13.5px;margin:12px 0}dt{color:var(--muted)}dd{margin:0;overflow-wrap:anywhere;font-family:ui-monospace,Menlo,Consolas,monospace;font-size:12.5px}
.tools{display:flex;flex-wrap:wrap;align-items:center;gap:8px;margin:12px 0}.tools input{flex:1 1 220px}.tools input,.tools select{font:inherit;color:inherit;background:var(--panel);border:1px solid var(--rule);border-radius:6px;padding:5px 9px;max-width:100%}
details.rollout{border:1px solid var(--rule);border-radius:6px;margin:6px 0}details.rollout>summary{padding:6px 10px;cursor:pointer;display:flex;gap:14px;flex-wrap:wrap;font-size:13.5px}
summary .kind{font-weight:700;min-width:3.2em}.pair{display:grid;grid-template-columns:3fr 2fr;gap:16px;padding:4px 12px 12px}.pair>div{min-width:0}
.pair h4{margin:8px 0 4px;font-size:12.5px;color:var(--muted)}.pair ul{margin:4px 0;padding-left:18px;font-size:13.5px;overflow-wrap:anywhere}
pre{margin:0;background:var(--panel);border-radius:6px;padding:9px 11px;font:12.5px/1.5 ui-monospace,Menlo,Consolas,monospace;white-space:pre-wrap;overflow-wrap:anywhere;unicode-bidi:isolate;direction:ltr;max-height:420px;overflow:auto}
bdi{overflow-wrap:anywhere}code{font-family:ui-monospace,Menlo,Consolas,monospace;font-size:.92em;overflow-wrap:anywhere}[hidden]{display:none!important}
@media screen and (max-width:700px){.chart{overflow-x:auto}.chart svg{min-width:840px}}
@media(max-width:700px){.pair{grid-template-columns:1fr}dl{grid-template-columns:1fr}dd{margin-bottom:6px}}
@media print{@page{margin:14mm}.cards{grid-template-columns:repeat(5,1fr);gap:6px}.card{padding:7px 9px}.card b{font-size:15px}.card span{font-size:10px;line-height:1.3;display:block}body{font-size:10.5pt}main{max-width:none;padding:0}.tools,details.rollout:not([open]){display:none}h2{break-after:avoid;margin-top:22px}figure,tr,.card{break-inside:avoid}
.wide{overflow:visible}table{font-size:8.5pt}th,td,.dense th,.dense td{padding:2px 5px}td small{font-size:7.5pt}pre{max-height:none}.card,pre,td.lead{print-color-adjust:exact;-webkit-print-color-adjust:exact}.only-screen{display:none}}
@media not print{.only-print{display:none}}
`;

// Without it everything can still be read: all rollouts are in the page.
const SCRIPT = `(()=>{const get=id=>document.getElementById(id),query=get('query'),all=[...document.querySelectorAll('details.rollout')];if(!query)return;
const texts=all.map(e=>e.textContent.toLowerCase()),selects=['tier','iteration','verdict'].map(get);
const show=()=>{const words=query.value.toLowerCase().split(/\\s+/).filter(Boolean);let n=0;
all.forEach((e,i)=>{const hit=words.every(w=>texts[i].includes(w))&&selects.every(s=>s.value===''||e.dataset[s.id]===s.value);e.hidden=!hit;if(hit)n++});
get('found').textContent=n+' shown'};
query.addEventListener('input',show);for(const s of selects)s.addEventListener('change',show);show()})();`;

const policy =
  `default-src 'none'; script-src 'sha256-${createHash('sha256').update(SCRIPT).digest('base64')}'; style-src ` +
  `'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'`;

export function page(title: string, body: HtmlValue): string {
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<link rel="icon" href="data:,">
<title>${title}</title>
<style>${new Html(STYLE)}</style>
</head>
<body>
<main>
${body}
</main>
<script>${new Html(SCRIPT)}</script>
</body>
</html>
`.text;
}
