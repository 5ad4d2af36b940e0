/**
 * Templates give what jinja2 gives where transformers configures it: jinja2/table.json holds its
 * texts, jinja2/models.json what was rendered before.
 */
import { readFileSync } from 'node:fs';
import { describe, expect, test } from '@jest/globals';
import { ChatTemplate } from '../../src/engine/chat-template.js';
import { PromptRenderer } from '../../src/engine/prompt-renderer.js';
import { FILTER_NAMES } from '../../src/engine/template/filters.js';
import { METHODS } from '../../src/engine/template/methods.js';
import { TEST_NAMES } from '../../src/engine/template/tests.js';
import { Random } from '../../src/random.js';

interface Case {
  readonly group: string;
  readonly template: string;
  readonly text?: string;
  readonly error?: string;
  /** Before there was an interpreter of our own; null: an error. */
  readonly before: string | null;
}
interface Table {
  readonly variables: Readonly<Record<string, unknown>>;
  readonly cases: readonly Case[];
}
interface Models {
  readonly conversations: readonly Readonly<Record<string, unknown>>[];
  readonly cases: readonly {
    readonly name: string;
    readonly template: string;
    readonly before: readonly (string | null)[];
  }[];
}
const read = <Content>(name: string): Content =>
  JSON.parse(readFileSync(new URL(`./jinja2/${name}`, import.meta.url), 'utf8')) as Content;
const table = read<Table>('table.json');
const models = read<Models>('models.json');

const rendererId = (chatTemplate: string): string =>
  new PromptRenderer({
    chatTemplate,
    controlTokens: [],
    bos: -1,
    eos: -1,
    ends: [],
    addBos: false,
    tokenize: () => new Int32Array(),
    isInjective: false,
  }).rendererId;
const render = (
  template: string,
  variables: Readonly<Record<string, unknown>> = table.variables,
): string => new ChatTemplate(template).render(variables);
const failure = (template: string, variables?: Readonly<Record<string, unknown>>): string => {
  try {
    return `no error: ${render(template, variables)}`;
  } catch (error) {
    return `${(error as Error).constructor.name}: ${(error as Error).message}`;
  }
};

describe('what jinja2 renders', () => {
  test.each([...new Set(table.cases.map(({ group }) => group))])('%s', (group) => {
    const cases = table.cases.filter((one) => one.group === group && one.text !== undefined);
    expect(
      cases.map(({ template }) => [template, failure(template).replace('no error: ', '')]),
    ).toEqual(cases.map(({ template, text }) => [template, text]));
  });

  test('what is an error of jinja2 is one of ours', () => {
    for (const { template, error } of table.cases)
      if (error !== undefined)
        expect([template, failure(template)]).toEqual([
          template,
          expect.stringMatching(/^(Template|NotCovered)/),
        ]);
  });

  test('the table has every filter, test and method that is covered', () => {
    const all = table.cases.map(({ template }) => template).join('\n');
    const missing = [
      ...[...FILTER_NAMES].filter(
        (name) => !new RegExp(`(\\||filter|map\\(') ?${name}\\b`).test(all),
      ),
      ...[...TEST_NAMES].filter(
        (name) => /^\w/.test(name) && !new RegExp(`is (not )?${name}\\b|'${name}'`).test(all),
      ),
      ...[...METHODS].filter((name) => !new RegExp(`\\.${name}\\(`).test(all)),
    ];
    expect(missing).toEqual([]);
  });
});

describe('what jinja2 3.1.6 renders beside the table', () => {
  test.each([
    [
      '{% for x in xs %}{{ loop.constructor }}{{ loop.toString is defined }}{{ loop.__proto__ is defined }} {% endfor %}',
      'FalseFalse '.repeat(3),
    ],
    [
      '{% set constructor = 1 %}{% set toString = 2 %}{% set valueOf, __proto__ = 3, 4 %}' +
        '{{ constructor }}{{ toString }}{{ valueOf }}{{ __proto__ }}',
      '1234',
    ],
    [
      '{% macro constructor(valueOf) %}{{ valueOf }}{% endmacro %}{{ constructor(valueOf=5) }}{{ hasOwnProperty is defined }}',
      '5False',
    ],
    [
      "{{ 'e\u0301a b' | wordcount }} {{ '\u0915\u093f' | wordcount }} {{ 'a_b\u203fc' | wordcount }}",
      '3 1 2',
    ],
    [
      "{{ 565 | replace(5, 7) }} {{ s | replace('o', 0) }} {{ s | replace('o', none) }}",
      '767 Hell0 W0rld HellNone WNonerld',
    ],
    [
      "{{ '%5.1f|%.0f|%.0f|%.2f|%.1f' % (1.25, 0.5, 1.5, 2.675, -0.25) }} {{ '%.2f' % 1e22 }} {{ '%f' % -0.0 }}",
      '  1.2|0|2|2.67|-0.2 10000000000000000000000.00 -0.000000',
    ],
    [
      '{{ 4.5 | round }} {{ 0.375 | round(2) }} {{ -0.125 | round(2) }} {{ 1250.0 | round(-2) }} {{ 1e22 | round(2) }} ' +
        '{{ 2.5e-7 | round(6) }}',
      '4.0 0.38 -0.12 1200.0 1e+22 0.0',
    ],
    [
      "{{ '\\ufeff5' | int }} {{ '\\x1f5' | int }} {{ '\\u20035\\n' | int }} {{ '\\x852.5' | float }}",
      '0 0 5 2.5',
    ],
    ["{{ 1 if 'nan' | float else 2 }}", '1'],
    [
      "{{ '\u00aab \u2177a'.title() }} {{ '\u00aa'.islower() }} {{ '\u24b6'.isupper() }} {{ '\u2177' is lower }} " +
        "{{ '\u0391\u03a3'.capitalize() }}",
      '\u00aab \u2167a True True True \u0391\u03c2',
    ],
    [
      "{{ '\u1369'.isdigit() }} {{ '\u2780'.isdigit() }} {{ '\u00bd'.isdigit() }}",
      'True True False',
    ],
  ])('%s', (template, text) => {
    expect(failure(template)).toBe(`no error: ${text}`);
  });

  test.each([
    '{{ -3 | abs(1) }}',
    "{{ 'ab'.islower(1) }}",
    "{{ '50%, %s' % 'a' }}",
    "{{ 'all of 100%' % () }}",
    "{{ ['a', 'b'] | sum(start='') }}",
    "{{ '{} {0}'.format(1) }}",
  ])('%s is an error of both', (template) => {
    expect(failure(template)).toMatch(/^(Template|NotCovered)/);
  });

  test.each([
    ["{{ '%(a)s' % {'a': 1} }}", 'the format conversion "%("'],
    ["{{ '%x' % 255 }}", 'the format conversion "%x"'],
    ["{{ '\u0663' | int }}", 'the filter "int" with digits other than 0 to 9'],
  ])('%s is rendered there, and refused here by name', (template, what) => {
    expect(failure(template)).toBe(`NotCovered: it uses ${what}, which is not supported`);
  });
});

describe('the id of a template', () => {
  /** Of today's inputs alone, as it was. */
  const IDS: Readonly<Record<string, string>> = { qwen3: 'corrected' };

  test.each(models.cases)(
    '$name: the prompts of before, or another id',
    ({ name, template, before }) => {
      const now = models.conversations.map((variables) => failure(template, variables));
      const same = now.map((text, i) =>
        before[i] === null ? text.startsWith('Template') : text === `no error: ${before[i]}`,
      );
      const isCorrected = new ChatTemplate(template).isCorrected;
      expect(isCorrected).toBe(IDS[name] === 'corrected');
      expect(same.every((one) => one)).toBe(!isCorrected);
    },
  );

  test('is looked at for the template of the embedded model, as its file has it', () => {
    const { template } = models.cases.find(({ name }) => name.includes('embedded'))!;
    expect(
      readFileSync(new URL('../../assets/models/tiny.gguf', import.meta.url)).includes(template),
    ).toBe(true);
  });

  test('stays the one that it was, in figures', () => {
    expect(rendererId('{{ messages[0].content }}')).toBe(
      '166953e126eb24de42a4a2c544573c189b29c58bb24c3870aecc1e13e4e26301',
    );
    expect(rendererId('')).toBe('9b0e4e189a495cbb7f6dbd56b6609eb24e1ddbec04c68edb4a13f388f4835f75');
    expect(rendererId("{{ messages[0].content.strip('x') }}")).not.toBe(
      '0c8ff5604d6d3046569b843f2362e8b1126b897b2980903154a10c53f04e1d65',
    );
  });

  test('is another one wherever a text of the table is, but where that hangs on variables that no training had', () => {
    const given = new Set(['messages', 'bos_token', 'eos_token', 'add_generation_prompt']);
    const others = new RegExp(
      `\\b(${Object.keys(table.variables)
        .filter((name) => !given.has(name))
        .join('|')})\\b(?!\\()`,
    );
    for (const { template, text, before } of table.cases) {
      if (text === undefined || before === null || text === before || others.test(template))
        continue;
      // as `corrections.ts` says, or as rare
      if (/-0\.0 \| tojson|\\x85|2 \*\* 100|indent\(first/.test(JSON.stringify(template))) continue;
      expect([template, new ChatTemplate(template).isCorrected]).toEqual([template, true]);
    }
  });

  test.each([
    "{% for m in messages %}{% if m.role == 'user' %}<u>{% elif loop.last %}<l>{% endif %}{{ m.content | trim }}{% endfor %}",
    "{{ bos_token }}{% for m in messages %}{{ m['role'] | capitalize }}: {{ m['content'] }}{{ eos_token if m.role " +
      "== 'assistant' else '' }}\n{% endfor %}",
    "{%- for m in messages -%}{%- set content = m.content -%}{%- if m.role == 'system' -%}{%- set content = 'S: ' " +
      '~ content -%}{%- endif -%}{{ content }}{%- endfor -%}',
    '{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{{ ns.n }}. {{ m.content.strip() }}\n{% endfor %}',
    '{% if add_generation_prompt %}{{ messages | length }}{% endif %}{% if tools %}{{ tools | tojson }}{% endif %}',
  ])('is the one of before where nothing changed: %j', (template) => {
    expect(new ChatTemplate(template).isCorrected).toBe(false);
  });

  test.each([
    '{% for m in messages %}\r\n{{ m.content }}\r\n{% endfor %}',
    "{% for m in messages %}{{ m.content.rstrip('\\n') }}{% endfor %}",
    "{% for m in messages %}{{ m.content | trim('*') }}{% endfor %}",
    '{% for m in messages %}{% if loop.first %}{% continue %}{% endif %}{{ m.content }}{% endfor %}',
    '{% for m in messages %}{{ m.content }}{% if loop.last %}{% break %}{% endif %}{% endfor %}',
    "{% for m in messages %}{{ m.role == 'user' }}{{ m.content }}{% endfor %}",
    '{{ messages }}',
    '{% for m in messages %}{% if loop.first %}{% set x = m.content %}{% endif %}{{ x }}{% endfor %}',
    '{% set x = none %}{{ x ~ messages[0].content }}',
    '  {% for m in messages %}{{ m.content }}{% endfor %}',
  ])('is another one where something did: %j', (template) => {
    expect(new ChatTemplate(template).isCorrected).toBe(true);
  });
});

describe('what is not covered', () => {
  test.each([
    ['{{ [1] | groupby("a") }}', 'the filter "groupby"'],
    ["{{ 'a' | urlencode }}", 'the filter "urlencode"'],
    ['{{ 1 is escaped }}', 'the test "escaped"'],
    ["{{ 'a'.encode() }}", 'the method "encode"'],
    ["{% include 'x' %}", 'the statement "include"'],
    ['{% block a %}x{% endblock %}', 'the statement "block"'],
    ['{{ lipsum() }}', 'the function "lipsum"'],
    ["{{ joiner(', ') }}", 'the function "joiner"'],
    ['{{ super() }}', 'the function "super"'],
    ["{{ ['a'] | map('urlencode') | join }}", 'the filter "urlencode"'],
    ["{{ [1] | select('escaped') | list }}", 'the test "escaped"'],
    ["{{ [{'a': 1}] | rejectattr('a', 'escaped') | list }}", 'the test "escaped"'],
    ["{% set x = 'a' | safe %}{{ x }}", 'the filter "safe" within an expression'],
    ["{{ 'a' | safe | trim }}", 'the filter "safe" within an expression'],
    ["{{ ['a'] | map('safe') | join }}", 'the filter "safe" within an expression'],
  ])('%s is refused by name where a rendering reaches it, and listed before', (template, what) => {
    expect(failure(template)).toBe(`NotCovered: it uses ${what}, which is not supported`);
    expect(failure(`{% if false %}${template}{% endif %}ok`)).toBe('no error: ok');
    expect(new ChatTemplate(`{% if false %}${template}{% endif %}ok`).uncovered).toEqual([what]);
  });

  test('nothing is listed of what is covered', () => {
    const { cases } = table;
    const listed = cases
      .filter(({ text }) => text !== undefined)
      .filter(({ template }) => new ChatTemplate(template).uncovered.length > 0);
    expect(listed.map(({ template }) => template)).toEqual([]);
  });
});

describe('what it may cost', () => {
  const DOUBLE = '{% for i in range(60) %}{% set ns.x = DOUBLED %}{% endfor %}';
  test.each([
    ['a long range', '{% for i in range(1000000000) %}{% endfor %}'],
    ['the length of one', '{{ range(4000000000) | length }}'],
    ['a range down', '{{ range(10 ** 18, 0, -1) | list }}'],
    [
      'loops in loops',
      '{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}',
    ],
    [
      'a text that doubles',
      `{% set ns = namespace(x='ab') %}${DOUBLE.replace('DOUBLED', 'ns.x ~ ns.x')}{{ ns.x }}`,
    ],
    [
      'a sum that doubles',
      `{% set ns = namespace(x='ab') %}${DOUBLE.replace('DOUBLED', 'ns.x + ns.x')}{{ ns.x | length }}`,
    ],
    [
      'a list that doubles',
      `{% set ns = namespace(x=[1]) %}${DOUBLE.replace('DOUBLED', 'ns.x + ns.x')}`,
    ],
    [
      'a list of itself twice, as text',
      `{% set ns = namespace(x=[]) %}${DOUBLE.replace('DOUBLED', '[ns.x, ns.x]')}{{ ns.x }}`,
    ],
    [
      'a list of itself twice, as JSON',
      `{% set ns = namespace(x=[]) %}${DOUBLE.replace('DOUBLED', '[ns.x, ns.x]')}{{ ns.x | tojson }}`,
    ],
    [
      'a list of itself twice, compared',
      `{% set ns = namespace(x=[], y=[]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}` +
        `{% set ns.y = [ns.y, ns.y] %}{% endfor %}{{ ns.x == ns.y }}`,
    ],
    [
      'a replacement that doubles',
      `{% set ns = namespace(x='a') %}${DOUBLE.replace('DOUBLED', "ns.x.replace('a', 'aa')")}`,
    ],
    [
      'a join that doubles',
      `{% set ns = namespace(x='a') %}${DOUBLE.replace('DOUBLED', 'ns.x.join([ns.x, ns.x, ns.x])')}`,
    ],
    [
      'a block that doubles',
      `{% set ns = namespace(x='a') %}{% for i in range(60) %}{% set ns.x %}{{ ns.x }}{{ ns.x }}{% endset %}{% endfor %}`,
    ],
    ['a text times a number', "{{ 'ab' * 1000000000 }}"],
    ['a list times a number', '{{ [1] * 10 ** 12 }}'],
    ['powers', '{{ 9 ** 99999 }}'],
    [
      'a product that grows',
      '{% set ns = namespace(x=3) %}{% for i in range(99) %}{% set ns.x = ns.x * ns.x %}{% endfor %}{{ ns.x }}',
    ],
    ['widths', "{{ 'a'.ljust(10 ** 12) }}"],
    ['a centre', "{{ 'a' | center(10 ** 10) }}"],
    ['an indent', "{{ 'a\\nb' | indent(10 ** 9) }}"],
    ['an indent of JSON', '{{ [[1]] | tojson(indent=10 ** 9) }}'],
    ['a conversion', "{{ '%1000000000d' % 1 }}"],
    ['zeros', "{{ '1'.zfill(10 ** 11) }}"],
    ['a fill', '{{ [1] | batch(10 ** 11, 0) | list }}'],
    ['a macro that calls itself', '{% macro a() %}{{ a() }}{% endmacro %}{{ a() }}'],
    [
      'a macro that calls itself twice',
      '{% macro a(n) %}{% if n %}{{ a(n - 1) }}{{ a(n - 1) }}{% endif %}{% endmacro %}{{ a(60) }}',
    ],
    [
      'a loop that calls itself',
      '{% set x = [1] %}{% for i in x recursive %}{{ loop(x) }}{% endfor %}',
    ],
    ['brackets in brackets', `{{ ${'['.repeat(100_000)}${']'.repeat(100_000)} }}`],
    ['parentheses', `{{ ${'('.repeat(50_000)}1${')'.repeat(50_000)} }}`],
    ['signs', `{{ ${'-'.repeat(100_000)}1 }}`],
    ['negations', `{{ ${'not '.repeat(100_000)}1 }}`],
    ['a long sum', `{{ 1${' + 1'.repeat(100_000)} }}`],
    ['many filters', `{{ 'a'${' | upper'.repeat(100_000)} }}`],
    ['conditions in conditions', '{% if 1 %}'.repeat(50_000) + '{% endif %}'.repeat(50_000)],
    ['many members', `{{ a${'.b'.repeat(100_000)} }}`],
    ['a template of megabytes', 'x'.repeat(3_000_000)],
    [
      'a list that holds one deeper at each step',
      '{% set ns = namespace(x=[]) %}{% for i in range(99999) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x }}',
    ],
    [
      'a search for half of a text in the whole',
      "{% set a = 'a' * 4000000 %}{{ (a ~ 'b') in a }}{{ a.count('a' * 2000000 ~ 'b') }}",
    ],
  ])('%s ends with an error, and soon', (_, template) => {
    const began = performance.now();
    expect(failure(template)).toMatch(/^Template(Limit|Error): /);
    expect(performance.now() - began).toBeLessThan(20_000);
  });

  test('what a megabyte of messages needs is there', () => {
    const messages = Array.from({ length: 2000 }, (_, i) => ({
      role: i % 2 === 0 ? 'user' : 'assistant',
      content: `${i} ${'wörd '.repeat(400)}`,
    }));
    const template =
      "{% set ns = namespace(out='') %}{% for m in messages %}" +
      "{% set ns.out = ns.out ~ '<' ~ m.role ~ '>' ~ (m.content | trim).replace('wörd', 'word') %}{% endfor %}{{ ns.out }}";
    expect(render(template, { messages }).length).toBeGreaterThan(4_000_000);
  });

  test('whatever a template is made of, it renders or ends with an error of its own', () => {
    const rng = new Random(35n);
    const pieces = [
      '{{',
      '}}',
      '{%',
      '%}',
      ' for ',
      ' in ',
      'x',
      '[1,2]',
      ' if ',
      ' endif ',
      ' endfor ',
      '|',
      'upper',
      '(',
      ')',
      "'a'",
      '-',
      '\n',
      '~',
      '.',
      'is',
      ' not ',
      '{#',
      '#}',
      '%',
      '1',
      'set x=',
      ' else ',
      'a\\',
      '"',
      '\r\n',
      'range(3)',
    ];
    for (let i = 0; i < 3000; i++) {
      const template = Array.from(
        { length: 1 + rng.nextInteger(0, 14) },
        () => pieces[rng.nextInteger(0, pieces.length - 1)]!,
      ).join('');
      expect([template, failure(template)]).toEqual([
        template,
        expect.stringMatching(/^(no error|Template|NotCovered)/),
      ]);
    }
  });
});
