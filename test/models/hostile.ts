/**
 * Texts that would break a page, a terminal or a reader's trust if they came through as they are.
 */
export const HOSTILE = [
  '</script><script>globalThis.broken = true</script>',
  '<img src=x onerror="globalThis.broken = true">',
  '"><svg onload=globalThis.broken=true>',
  "' onmouseover='globalThis.broken = true",
  '<!-- --!> ]]> <![CDATA[ &lt; &amp; &#0;',
  '</pre></details></style></title></textarea>',
  '<base href="http://example.invalid/"><meta http-equiv="refresh" content="0;url=http://example.invalid/">',
  '<link rel=stylesheet href=http://example.invalid/a.css><iframe src=http://example.invalid/>',
  'right to left \u202e answer: passed \u202c and \u2066isolate\u2069 \u200f',
  'terminal \u001b[2J\u001b]0;title\u0007 \u009b31m \u0000 \u007f \r over',
  'zero\u200bwidth \ufeff \u{e0041} \u2028 separators \ufdd0 \uffff',
  'عربي עברית 中文 🙂 z\u0335\u0336a\u0337l\u0338g\u0335o',
  // biome-ignore lint/suspicious/noTemplateCurlyInString: it must not be taken for a template
  'javascript:alert(1) url(http://example.invalid/b.png) $& $1 ${x} `y`',
  '__proto__',
  'constructor',
  'toString',
] as const;
