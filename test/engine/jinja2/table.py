"""
Writes table.json: what jinja2 gives for each template, as transformers configures it for chat templates.

    pip install transformers==5.24.0 jinja2==3.1.6 && python table.py

A group is a name, variables, and templates. What is an error there has its type and message.
"""

import json
import sys
from pathlib import Path

import jinja2
import transformers
from transformers.utils.chat_template_utils import _compile_jinja_template

MESSAGES = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "  Hello, wörld 🌍!\n"},
    {"role": "assistant", "content": "<think>\nhm\n</think>\n\n    return 1\n"},
    {"role": "user", "content": "And now?"},
]
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "Says \"how\" it is; <b>ü</b> & 'so'\ton",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string"}, "days": {"type": "integer", "default": 3}, "f": {"enum": [1.5, None, True]}},
                "required": ["city"],
                "items": [],
            },
        },
    }
]
DATA = {
    "messages": MESSAGES,
    "tools": TOOLS,
    "s": "Hello World",
    "wide": "a🌍b𝒳c",
    "blank": " \t\n x y \n",
    "n": 7,
    "big": 9007199254740991,
    "f": 2.5,
    "t": True,
    "no": None,
    "xs": [3, 1, 2],
    "words": ["pear", "Apple", "fig", "apple"],
    "people": [{"name": "Bo", "age": 5}, {"name": "al", "age": 3}, {"name": "Cy", "age": 5, "x": {"y": 1}}],
    "d": {"b": 2, "a": 1, "C": [1, {"z": None}]},
    "e": {},
}

groups = {}


def group(name, *templates):
    groups[name] = templates


group(
    "output",
    "{{ s }}", "{{ n }}", "{{ f }}", "{{ t }}", "{{ no }}", "{{ missing }}", "{{ xs }}", "{{ words }}", "{{ d }}", "{{ e }}", "{{ [] }}",
    "{{ (1, 'a') }}", "{{ (1,) }}", "{{ () }}", "{{ 1, 2 }}", "{{ ['it\\'s', 'a \"q\"', 'both \\' and \"', 'tab\\t', 'nl\\n', '\\\\'] }}",
    "{{ ['ü', '🌍', '\\u200b', '\\x07', '\\xa0', '\\ue000'] }}", "{{ [none, true, 1.0, missing] }}", "{{ {'a': {'b': (1, 2)}} }}",
    "{{ d.items() }}", "{{ d.keys() }}", "{{ d.values() }}", "{{ messages[0] }}", "{{ '' }}|{{ none }}|{{ [] }}", "{{ 'a' 'b' \"c\" }}",
    "{{ true }} {{ True }} {{ false }} {{ False }} {{ None }}", "{{ tools }}",
)
group(
    "numbers",
    "{{ 1 + 2 }}", "{{ 1 + 2.0 }}", "{{ 7 / 2 }}", "{{ 6 / 2 }}", "{{ 7 // 2 }}", "{{ -7 // 2 }}", "{{ 7 // -2 }}", "{{ 7 % 3 }}", "{{ -7 % 3 }}",
    "{{ 7 % -3 }}", "{{ 7.5 // 2 }}", "{{ -7.5 % 2 }}", "{{ 7.5 % -2 }}", "{{ 2 ** 3 }}", "{{ 2 ** -1 }}", "{{ 2 ** 3 ** 2 }}", "{{ -2 ** 2 }}", "{{ 2 ** 0.5 }}",
    "{{ 1e3 }}", "{{ 1e16 }}", "{{ 1e15 }}", "{{ 1.5e-5 }}", "{{ 0.0001 }}", "{{ 0.1 + 0.2 }}", "{{ 1e100 }}", "{{ 123456789012345678901234567890 }}",
    "{{ big + 2 }}", "{{ big * big }}", "{{ 2 ** 100 }}", "{{ 1_000 }}", "{{ 0x1F }} {{ 0b101 }} {{ 0o17 }}", "{{ 1.0 }}", "{{ 10 / 5 * 2 }}", "{{ -n }} {{ +n }} {{ - f }}",
    "{{ true + true }}", "{{ 3 - 5 }}", "{{ 1 - -1 }}", "{{ 2 * 3 + 4 * 5 }}", "{{ (2 + 3) * 4 }}", "{{ 5.0 // 2 }}", "{{ 1 / 3 }}", "{{ 1.0 * 3 }}", "{{ 1 / 0 }}", "{{ 1 % 0 }}",
    "{{ '3' + 4 }}", "{{ 3 * 'ab' }}", "{{ 'ab' * 2 }}", "{{ 'ab' * -1 }}", "{{ [1] * 3 }}", "{{ [1] + [2] }}", "{{ (1,) + (2,) }}", "{{ [1] + (2,) }}", "{{ 1 + none }}", "{{ 3.0 == 3 }}",
    "{{ 1e400 }} {{ -1e400 }}", "{{ 100000000000000000000.0 }}", "{{ 1.10 }}", "{{ n / f }}", "{{ 0.0 }} {{ -0.0 }}",
)
group(
    "comparisons",
    "{{ 1 == 1.0 }}", "{{ 1 == true }}", "{{ '1' == 1 }}", "{{ 1 < 2 < 3 }}", "{{ 1 < 3 < 2 }}", "{{ 'a' < 'b' }}", "{{ 'Z' < 'a' }}", "{{ [1, 2] < [1, 3] }}", "{{ (1, 2) == (1, 2) }}", "{{ [1] == (1,) }}",
    "{{ {'a': 1} == {'a': 1.0} }}", "{{ none == false }}", "{{ missing == missing }}", "{{ missing == none }}", "{{ missing == '' }}", "{{ 1 != 2 }}", "{{ 1 in [1, 2] }}", "{{ 'a' in 'abc' }}", "{{ 'a' not in 'abc' }}",
    "{{ 'a' in d }}", "{{ 1 in d.values() }}", "{{ 2.0 in xs }}", "{{ not 1 in xs }}", "{{ 'x' in missing }}", "{{ 1 in 'abc' }}", "{{ 1 < 'a' }}", "{{ none < 1 }}", "{{ '' in 'abc' }}", "{{ 'wör' in messages[1].content }}",
    "{{ true and false or true }}", "{{ 0 or 'x' }}", "{{ 0 and 'x' }}", "{{ '' or none }}", "{{ not '' }}", "{{ not not 1 }}", "{{ (1 if t else 2) }}", "{{ 1 if false }}", "{{ 'a' if n > 5 else 'b' if n > 3 else 'c' }}",
    "{{ 2 in range(3) }}", "{{ '𝒳' > '\\uffee' }}", "{{ [] == [] }} {{ {} == {} }}", "{{ 1 == 1 == 1 }}", "{{ 3 >= 3 }} {{ 3 <= 2 }}", "{{ 'ab' ~ 1 ~ none ~ true ~ 1.5 ~ missing ~ [1] }}", "{{ 1 ~ 2 + 3 }}",
    "{% if [] %}a{% endif %}{% if {} %}b{% endif %}{% if '' %}c{% endif %}{% if 0.0 %}d{% endif %}{% if 0 %}e{% endif %}{% if none %}f{% endif %}{% if range(0) %}g{% endif %}{% if () %}h{% endif %}{% if e.items() %}i{% endif %}.",
    "{% if xs | select %}yes{% endif %}{% if [] | map('upper') %}yes{% endif %}",
)
group(
    "escapes",
    r"{{ 'a\nb' }}", r"{{ 'a\tb' }}", r"{{ '\x41\u00fc\U0001F30D' }}", r"{{ '\101' }}", r"{{ '\d' }}", r"{{ '\\n' }}", r"""{{ '\'' ~ "\"" }}""", r"{{ 'a\
b' }}", "{{ 'two\nlines' }}", r"{{ '\r\n'|length }}", r"{{ '\a\b\f\v'|length }}", r"{{ '\0' | length }}", "{{ 'ü' }}", "{{ '{{ x }} {% y %}' }}", "{{ '%}' }}{{ '}}' }}", "{{ \"it's\" }}",
)
group(
    "indices",
    "{{ s[0] }}", "{{ s[-1] }}", "{{ s[99] }}|", "{{ wide[1] }}", "{{ wide[-2] }}", "{{ wide[1:4] }}", "{{ wide[::-1] }}", "{{ s[1:3] }}", "{{ s[:-1] }}", "{{ s[::2] }}", "{{ s[5:1:-1] }}", "{{ s[10:] }}|{{ s[20:] }}|", "{{ s[-3:] }}", "{{ s[-99:2] }}",
    "{{ xs[0] }}", "{{ xs[-1] }}", "{{ xs[1:] }}", "{{ xs[::-1] }}", "{{ xs[5:] }}", "{{ xs[:2][0] }}", "{{ xs[::0] }}", "{{ messages[1:][0].role }}", "{{ messages[-1]['content'] }}", "{{ messages[::-1][0].content }}", "{{ (1, 2, 3)[1:] }}",
    "{{ d['a'] }}", "{{ d.a }}", "{{ d.missing }}|", "{{ d['missing'] }}|", "{{ d.C[1].z }}", "{{ d.missing.deeper }}", "{{ missing.x }}", "{{ missing['x'] }}", "{{ no.x }}|", "{{ n.x }}|", "{{ s.x }}|", "{{ xs.0 }}", "{{ range(5)[2] }}", "{{ range(10)[2:5] | list }}",
    "{{ tools[0].function.parameters['items'] }}", "{{ tools[0].function.parameters.items() | list | length }}", "{{ d[no] }}|", "{{ xs['0'] }}|", "{{ xs[true] }}", "{{ {1: 'a', true: 'b'}[1] }}", "{{ {'x': 1}.x }}", "{{ 'abc'[1] ~ 'abc'.upper() }}", "{{ xs[1.0] }}|", "{{ s['upper']() }}",
    "{{ xs[-5:2] }}", "{{ s[2:2] }}|", "{{ xs[n - 5:n] }}",
)
group(
    "methods of texts",
    "{{ s.upper() }} {{ s.lower() }} {{ s.title() }} {{ s.swapcase() }} {{ s.capitalize() }}", "{{ 'ß straße ǆ İI'.upper() }}", "{{ 'ΑΣ ΟΔΟΣ'.lower() }}", "{{ \"they're bill's\".title() }}", "{{ 'ßa'.capitalize() }}", "{{ 'STRASSE ß'.casefold() }}",
    "[{{ blank.strip() }}]", "[{{ blank.lstrip() }}]", "[{{ blank.rstrip() }}]", "{{ 'xxaxbxx'.strip('x') }}", "{{ 'abcba'.strip('ab') }}", "{{ '\\n\\n  a'.lstrip('\\n') }}", "{{ 'a  \\n'.rstrip('\\n') }}|", "{{ '🌍a🌍'.strip('🌍') }}", "[{{ ' a '.strip(none) }}]", "[{{ '\\u3000\\x1ca\\x85\\ufeff'.strip() | length }}]", "{{ 'abc'.strip('') }}",
    "{{ messages[2].content.split('</think>')[-1].lstrip('\\n') }}", "{{ messages[2].content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') }}", "{{ 'a,b,c'.split(',') }}", "{{ 'a,b,c'.split(',', 1) }}", "{{ 'a,b,c'.rsplit(',', 1) }}", "{{ ' a  b '.split() }}", "{{ ' a  b c '.split(none, 1) }}", "{{ ' a  b c '.rsplit(none, 1) }}", "{{ ''.split() }} {{ ''.split(',') }}", "{{ 'a--b'.split('-') }}", "{{ 'abc'.split('') }}", "{{ 'a b'.split(maxsplit=0) }}", "{{ 'a,b'.split(sep=',') }}", "{{ 'a\\u2003b\\x1cc'.split() }}", "{{ 'a b c'.split(' ', -1) }}", "{{ 'a b c'.rsplit() }}", "{{ '  '.split(none, 1) }}",
    "{{ 'aXbXc'.replace('X', '-') }}", "{{ 'aXbXc'.replace('X', '-', 1) }}", "{{ 'abc'.replace('', '.') }}", "{{ 'abc'.replace('', '.', 2) }}", "{{ 'a$b'.replace('$', '$&$1') }}", "{{ 'aaa'.replace('a', 'b', -1) }}", "{{ 'aaa'.replace('a', 'b', 0) }}", "{{ 'abc'.replace('b', '') }}",
    "{{ s.startswith('He') }} {{ s.startswith('he') }} {{ s.startswith(('x', 'H')) }} {{ s.startswith('l', 2) }} {{ s.endswith('ld') }} {{ s.endswith('') }} {{ s.endswith('lo', 0, 5) }}", "{{ s.startswith('') }}", "{{ s.startswith(1) }}",
    "{{ s.find('o') }} {{ s.find('o', 5) }} {{ s.find('q') }} {{ s.rfind('o') }} {{ s.index('l') }} {{ s.rindex('l') }} {{ wide.find('c') }} {{ s.find('l', -3) }}", "{{ s.index('q') }}", "{{ s.count('l') }} {{ 'aaa'.count('aa') }} {{ 'abc'.count('') }} {{ s.count('l', 5) }}",
    "{{ s.partition(' ') }} {{ s.partition('x') }} {{ 'a-b-c'.rpartition('-') }} {{ s.rpartition('x') }}", "{{ 'test.py'.removesuffix('.py') }} {{ 'test.py'.removeprefix('te') }} {{ 'test'.removesuffix('') }} {{ 'x'.removeprefix('y') }}",
    "{{ '-'.join(['a', 'b']) }}", "{{ ''.join([]) }}|", "{{ ','.join('abc') }}", "{{ ','.join([1]) }}", "{{ ','.join(d) }}", "{{ 'ab'.ljust(5) }}|{{ 'ab'.rjust(5, '*') }}|{{ 'ab'.center(5) }}|{{ 'abc'.center(6, '-') }}|{{ 'a'.center(4) }}|{{ 'ab'.ljust(1) }}", "{{ '42'.zfill(5) }} {{ '-42'.zfill(5) }} {{ 'abc'.zfill(2) }}",
    "{{ 'a\\nb\\r\\nc\\n'.splitlines() }} {{ 'a\\nb'.splitlines(true) }} {{ ''.splitlines() }}", "{{ 'abc'.isalpha() }} {{ '12'.isdigit() }} {{ 'a1'.isalnum() }} {{ ' '.isspace() }} {{ ''.isspace() }} {{ 'ab'.islower() }} {{ 'AB'.isupper() }} {{ '½'.isnumeric() }} {{ '½'.isdigit() }} {{ '1'.isdecimal() }} {{ 'A b'.istitle() }} {{ 'ab'.isascii() }}",
    "{{ '{} and {}'.format(1, 'x') }} {{ '{1}{0}'.format('a', 'b') }} {{ '{k}'.format(k=2) }} {{ '{{}}'.format() }}", "{{ '{}'.format() }}", "{{ '%s is %d' % ('x', 3) }}", "{{ '%5.2f|%-5s|%05d|%+d|%%' % (1.234, 'ab', 42, 7) }}", "{{ '%s' % 'x' }} {{ '%r' % 'x' }}", "{{ '%d' % 3.9 }}", "{{ '%s' % (1, 2) }}", "{{ s.append('x') }}", "{{ 'a'.nothing() }}",
    "{{ s.upper }}" if False else "{{ s.lower().split()[0].title() }}",
)
group(
    "methods of lists and dicts",
    "{{ xs.index(1) }} {{ xs.count(3) }} {{ xs.copy() }}", "{{ xs.index(9) }}", "{{ (1, 2, 1).count(1) }} {{ (1, 2).index(2) }}", "{{ d.get('a') }} {{ d.get('x') }} {{ d.get('x', 5) }}", "{{ d.keys() | list }} {{ d.values() | list }} {{ d.items() | list }}", "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}", "{% for k in d %}{{ k }}{% endfor %}", "{{ d.copy() == d }}", "{{ xs.append(4) }}", "{{ d.update({'x': 1}) }}", "{{ d.pop('a') }}", "{{ xs.sort() }}", "{{ d.items() | length }}", "{{ 'a' in d.keys() }}", "{{ d.nothing() }}", "{{ dict(a=1, b=2) }} {{ dict([('x', 1)]) }} {{ dict({'q': 1}, r=2) }}",
    "{{ {'a': 1, 'b': 2, 'a': 3} }}", "{% set o = {'z': 1} %}{{ o.z }}", "{{ {1: 'i', 1.0: 'f', true: 't'} }}", "{{ {none: 1}[none] }}",
)
group(
    "filters",
    "{{ -3 | abs }} {{ -2.5 | abs }}", "{{ xs | batch(2) | list }}", "{{ xs | batch(2, 0) | list }}", "{{ 'hELLO wORLD' | capitalize }}", "{{ 'ab' | center(6) }}|", "{{ missing | default('x') }} {{ '' | default('x') }}|{{ '' | default('x', true) }} {{ no | default('x') }} {{ no | d('x', boolean=true) }} {{ missing | default }}|", "{{ d | dictsort }}", "{{ d | dictsort(true) }}", "{{ {'a': 2, 'b': 1} | dictsort(by='value') }}", "{{ {'a': 2, 'b': 1} | dictsort(reverse=true) }}",
    "{{ xs | first }} {{ s | first }} {{ [] | first }}|{{ d | first }}", "{{ xs | last }} {{ s | last }} {{ [] | last }}|{{ d | last }}", "{{ '2.5' | float }} {{ 'x' | float }} {{ 'x' | float(1.5) }} {{ 3 | float }} {{ '1e3' | float }} {{ none | float }} {{ ' 2 ' | float }}", "{{ '42' | int }} {{ '4.7' | int }} {{ 'x' | int }} {{ 'x' | int(-1) }} {{ 3.9 | int }} {{ -3.9 | int }} {{ none | int }} {{ ' 12 ' | int }} {{ true | int }} {{ '1_000' | int }} {{ '-5' | int }}",
    "{{ '%s-%s' | format(1, 'b') }}", "{{ 'a\\nb\\n\\nc' | indent }}", "{{ 'a\\nb' | indent(2, true) }}", "{{ 'a\\n\\nb' | indent(width=2, blank=true) }}", "{{ 'a\\nb' | indent('> ') }}", "{{ 'a\\nb\\n' | indent(1) }}|", "{{ '' | indent(first=true) }}|", "{{ d | items | list }} {{ missing | items | list }}", "{{ xs | join }} {{ xs | join(', ') }} {{ people | join('/', attribute='name') }} {{ [] | join(',') }}| {{ [1, none, 'a'] | join('-') }} {{ 'abc' | join('.') }}",
    "{{ xs | length }} {{ s | length }} {{ wide | length }} {{ d | length }} {{ missing | length }} {{ d | count }} {{ (1, 2) | length }} {{ range(3) | length }}", "{{ 3 | length }}", "{{ none | length }}", "{{ 'abc' | list }} {{ d | list }} {{ range(3) | list }} {{ missing | list }} {{ (1, 2) | list }}", "{{ 'ÄB' | lower }} {{ 'äß' | upper }} {{ 1 | upper }} {{ none | lower }}",
    "{{ people | map(attribute='name') | list }}", "{{ people | map(attribute='x.y', default=0) | list }}" if False else "{{ people | map(attribute='x', default=0) | list }}", "{{ people | map(attribute='z') | list }}", "{{ words | map('upper') | join(',') }}", "{{ ['a b', 'c'] | map('replace', ' ', '_') | list }}", "{{ ['1', '2'] | map('int') | sum }}", "{{ [[1, 2], [3, 4]] | map(attribute=1) | list }}", "{{ xs | map('string') | map('length') | list }}",
    "{{ xs | max }} {{ xs | min }} {{ [] | max }}| {{ words | max }} {{ words | min }} {{ words | min(case_sensitive=true) }} {{ people | max(attribute='age') }}", "{{ xs | select('odd') | list }} {{ xs | reject('odd') | list }} {{ [0, 1, ''] | select | list }} {{ [0, 1] | reject | list }} {{ xs | select('gt', 1) | list }} {{ xs | select('in', [1, 9]) | list }}", "{{ people | selectattr('x') | map(attribute='name') | list }} {{ people | rejectattr('age', 'equalto', 5) | map(attribute='name') | list }} {{ people | selectattr('x', 'defined') | list | length }} {{ people | selectattr('age', '>', 3) | list | length }}", "{{ messages | selectattr('role', 'equalto', 'user') | map(attribute='content') | list }}", "{{ (messages | selectattr('role', '==', 'user') | first).content }}", "{{ (messages | selectattr('role', 'eq', 'user') | list)[-1].content }}",
    "{{ 'aXbX' | replace('X', '-') }} {{ 'aXbX' | replace('X', '-', 1) }} {{ 121 | replace('1', 'x') }}", "{{ xs | reverse | list }} {{ 'añ🌍' | reverse }}", "{{ 2.5 | round }} {{ 3.5 | round }} {{ 2.675 | round(2) }} {{ 42 | round }} {{ 2.1 | round(method='ceil') }} {{ 2.9 | round(0, 'floor') }} {{ 1234.5 | round(-2) }} {{ -2.5 | round }} {{ 0.125 | round(2) }} {{ 0.5 | round | int }} {{ 1.005 | round(2) }} {{ 3 | round(1) }}",
    "{{ '<b>' | safe }}", "{{ tools[0] | tojson | safe }}", "{{ xs | slice(2) | list }} {{ xs | slice(2, 'x') | list }}", "{{ xs | sort }} {{ words | sort }} {{ words | sort(case_sensitive=true) }} {{ xs | sort(reverse=true) }} {{ people | sort(attribute='age') | map(attribute='name') | list }} {{ people | sort(attribute='age,name') | map(attribute='name') | list }} {{ d | sort }}", "{{ ['a', 1] | sort }}", "{{ 5 | string ~ 'x' }} {{ none | string }} {{ [1] | string }}", "{{ xs | sum }} {{ people | sum(attribute='age') }} {{ xs | sum(start=10) }} {{ [] | sum }} {{ [1.5, 2] | sum }}",
    "{{ 'hello wORLD-foo (bar' | title }} {{ \"it's\" | title }}", "[{{ blank | trim }}] {{ 'xax' | trim('x') }} [{{ '\\u3000 a' | trim }}] [{{ 5 | trim }}]", "{{ ['a', 'A', 'b', 'a'] | unique | list }} {{ ['a', 'A'] | unique(true) | list }} {{ people | unique(attribute='age') | map(attribute='name') | list }} {{ [1, 1.0, 2] | unique | list }}", "{{ 'a b  c-d' | wordcount }}", "{{ 'abc' | upper | lower | capitalize }}", "{{ s | replace('l', 'L') | trim('H') }}", "{{ -1 | abs + 2 }}", "{{ 1 + 2 | string | length }}", "{{ 'a' ~ 'b' | upper }}", "{{ ('a' ~ 'b') | upper }}", "{{ no | length if no else 0 }}", "{% filter upper %}a{{ s }}{% endfilter %}", "{% filter replace('a', 'b') | upper %}aac{% endfilter %}",
)
group(
    "tojson",
    "{{ s | tojson }}", "{{ tools | tojson }}", "{{ tools | tojson(indent=2) }}", "{{ tools[0] | tojson(indent=4) }}", "{{ d | tojson(sort_keys=true) }}", "{{ d | tojson(separators=(',', ':')) }}", "{{ 'ü🌍' | tojson }} {{ 'ü🌍\\x7f' | tojson(ensure_ascii=true) }}", "{{ \"a'b\\\"c<>&\\\\ \\u2028\\x01\\n\" | tojson }}", "{{ [1, 1.0, 1.5e20, 1e-7, true, none] | tojson }}", "{{ [] | tojson }} {{ {} | tojson }} {{ [] | tojson(indent=2) }} {{ {'a': []} | tojson(indent=2) }}", "{{ (1, 2) | tojson }}", "{{ {1: 'a', none: 'b', true: 'c', 1.5: 'd'} | tojson }}", "{{ missing | tojson }}", "{{ {'a': missing} | tojson }}", "{{ 1e400 | tojson }}", "{{ messages | tojson }}", "{{ [[1, [2, []]], {'k': {'l': 1}}] | tojson(indent=1) }}", "{{ 2 ** 70 | tojson }}", "{{ 'x' | tojson(indent='--') }}{{ [1] | tojson(indent='--') }}", "{{ big | tojson }}", "{{ d.keys() | tojson }}", "{{ -0.0 | tojson }} {{ 100.0 | tojson }}",
)
group(
    "tests",
    "{{ s is string }} {{ n is string }} {{ no is string }}", "{{ n is number }} {{ f is number }} {{ t is number }} {{ s is number }}", "{{ n is integer }} {{ f is integer }} {{ t is integer }}", "{{ f is float }} {{ n is float }}", "{{ t is boolean }} {{ n is boolean }}", "{{ d is mapping }} {{ xs is mapping }}", "{{ xs is sequence }} {{ s is sequence }} {{ d is sequence }} {{ n is sequence }} {{ range(2) is sequence }} {{ (1,) is sequence }} {{ missing is sequence }}", "{{ xs is iterable }} {{ s is iterable }} {{ d is iterable }} {{ n is iterable }} {{ missing is iterable }} {{ d.items() is iterable }}", "{{ no is none }} {{ missing is none }}", "{{ missing is defined }} {{ s is defined }} {{ no is defined }} {{ d.x is defined }} {{ d['a'] is defined }}", "{{ missing is undefined }}", "{{ missing.x is defined }}",
    "{{ t is true }} {{ 1 is true }} {{ false is false }} {{ 0 is false }}", "{{ 4 is even }} {{ 3 is odd }} {{ 4 is odd }}", "{{ 9 is divisibleby 3 }} {{ 9 is divisibleby(2) }}", "{{ 1 is eq 1 }} {{ 1 is equalto(1.0) }} {{ 1 is ne 2 }} {{ 1 is == 1 }}" if False else "{{ 1 is eq 1 }} {{ 1 is equalto(1.0) }} {{ 1 is ne 2 }}", "{{ 1 is lt 2 }} {{ 1 is lessthan(2) }} {{ 2 is le 2 }} {{ 3 is gt 2 }} {{ 3 is greaterthan(5) }} {{ 2 is ge 3 }}", "{{ 1 is in [1, 2] }} {{ 'x' is in('abc') }} {{ 5 is not in [1] }}", "{{ 'abc' is lower }} {{ 'ABC' is upper }} {{ '1' is lower }}", "{{ 'upper' is filter }} {{ 'nothing' is filter }} {{ 'odd' is test }} {{ 'nope' is test }}", "{{ range is callable }} {{ s is callable }}", "{{ no is sameas none }} {{ 1 is sameas(1) }} {{ 1 is sameas true }}", "{{ s is not none }} {{ s is not string }}", "{{ s is string and n is number }}", "{{ not s is string }}", "{{ s is defined and s is not none and s | length > 0 }}", "{{ (n if n is defined else 0) + 1 }}", "{{ 'x' if s is string else 'y' }}", "{{ n is not divisibleby 2 }}", "{{ messages is iterable and messages is not string and messages is not mapping }}",
)
group(
    "loops",
    "{% for x in xs %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }} {% endfor %}", "{% for x in xs %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }};{% endfor %}", "{% for x in xs %}{{ loop.previtem is defined }} {{ loop.nextitem is defined }};{% endfor %}", "{% for x in xs %}{{ loop.cycle('a', 'b') }}{% endfor %}", "{% for x in [1, 1, 2, 2] %}{{ loop.changed(x) }} {% endfor %}", "{% for x in [] %}a{% else %}none{% endfor %}", "{% for x in xs %}a{% else %}none{% endfor %}", "{% for x in xs if x > 1 %}{{ x }}{{ loop.length }}{{ loop.last }} {% endfor %}", "{% for x in xs if x > 9 %}a{% else %}none{% endfor %}", "{% for a, b in [(1, 2), [3, 4]] %}{{ a }}-{{ b }} {% endfor %}", "{% for (a, b), c in [((1, 2), 3)] %}{{ a }}{{ b }}{{ c }}{% endfor %}", "{% for a, b in [(1, 2, 3)] %}{% endfor %}", "{% for c in 'añ🌍' %}{{ c }}.{% endfor %}", "{% for x in missing %}a{% else %}b{% endfor %}", "{% for x in none %}{% endfor %}", "{% for x in 5 %}{% endfor %}",
    "{% for i in range(3) %}{{ i }}{% endfor %} {% for i in range(2, 10, 3) %}{{ i }}{% endfor %} {% for i in range(5, 0, -2) %}{{ i }}{% endfor %}{{ range(3, 1) | list }}", "{% for i in range(100001) %}{% endfor %}", "{% for i in range(1.5) %}{% endfor %}", "{% for x in xs %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% endfor %}", "{% for x in xs %}a{{ x }}{% if x == 1 %}{% break %}{% endif %}b{% endfor %}c", "{% for m in messages %}{% if m.role == 'system' %}[sys]{{ m.content }}{% continue %}{% endif %}[{{ m.role }}]{% endfor %}", "{% for x in xs %}{% for y in xs %}{% if y == 1 %}{% break %}{% endif %}{{ x }}{{ y }} {% endfor %}{{ loop.index }};{% endfor %}", "{% set x = 0 %}{% for i in xs %}{{ x }}{% set x = i %}{{ x }} {% endfor %}{{ x }}", "{% set ns = namespace(x=0, found=false) %}{% for i in xs %}{% set ns.x = ns.x + i %}{% if i == 1 %}{% set ns.found = true %}{% endif %}{% endfor %}{{ ns.x }} {{ ns.found }}", "{% for i in xs %}{% set inner = i %}{% endfor %}{{ inner }}|{{ i }}|", "{% for x in xs %}{% set last = loop.last %}{{ last }} {% endfor %}",
    "{% for node in [{'n': 1, 'c': [{'n': 2, 'c': []}]}] recursive %}{{ node.n }}{{ loop.depth }}{{ loop.depth0 }}({{ loop(node.c) }}){% endfor %}", "{{ loop }}|", "{% for x in xs %}{% for y in [1] %}{{ loop.index }}{% endfor %}{{ loop.index }} {% endfor %}", "{% for k, v in d | dictsort %}{{ k }}{% endfor %}", "{% for k, v in d | items %}{{ k }}{% endfor %}", "{% for m in messages[1:] %}{{ loop.index0 }}{{ m.role }} {% endfor %}", "{% for m in messages[::-1] %}{{ m.role }} {% endfor %}", "{% for m in messages | reverse %}{{ m.role }} {% endfor %}", "{% for x in (1, 2) %}{{ x }}{% endfor %}{% for x in 1, 2 %}{{ x }}{% endfor %}", "{% for x in xs | sort %}{{ x }}{% endfor %}", "{% set g = xs | map('string') %}{% for x in g %}{{ x }}{% endfor %}{% for x in g %}{{ x }}{% endfor %}", "{% for x in xs %}{{ loop.x }}|{% endfor %}", "{% break %}", "{% for m in messages %}{% if loop.index0 > 0 and messages[loop.index0 - 1].role == 'user' %}u{% endif %}{{ m.role[0] }}{% endfor %}", "{% for x in d.values() %}{{ x }};{% endfor %}", "{% for x in xs if x is odd %}{{ x }}{% if not loop.last %}, {% endif %}{% endfor %}",
)
group(
    "statements",
    "{% if n > 5 %}a{% elif n > 3 %}b{% else %}c{% endif %}{% if n > 9 %}a{% elif n > 3 %}b{% else %}c{% endif %}{% if n > 9 %}a{% elif n > 8 %}b{% else %}c{% endif %}", "{% set x = 1 %}{% if true %}{% set x = 2 %}{% endif %}{{ x }}", "{% set a, b = 1, 2 %}{{ a }}{{ b }}", "{% set a = 1, 2 %}{{ a }}", "{% set x %}a{{ n }}b{% endset %}{{ x }}{{ x | length }}", "{% set x | upper %}abc{% endset %}{{ x }}", "{% set x | replace('a', 'b') | upper %}aac{% endset %}{{ x }}", "{% set x.y = 1 %}", "{% set ns = namespace() %}{% set ns.a = 1 %}{{ ns.a }}{{ ns.b }}|", "{% set ns = namespace({'a': 1}, b=2) %}{{ ns.a }}{{ ns.b }}{{ ns['a'] }}", "{% set ns = namespace(t='') %}{% set ns.t %}ab{% endset %}{{ ns.t }}", "{% with a = 1, b = 2 %}{{ a + b }}{% endwith %}{{ a }}|", "{% with %}{% set z = 1 %}{{ z }}{% endwith %}{{ z }}|", "{% set a = 1 %}{% with a = 2, b = a %}{{ a }}{{ b }}{% endwith %}{{ a }}",
    "{% macro m(a, b=2) %}[{{ a }}{{ b }}]{% endmacro %}{{ m(1) }}{{ m(1, 3) }}{{ m(b=5, a=4) }}{{ m() }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(x=2) }}", "{% macro m() %}{{ n }}{% endmacro %}{{ m() | length }}{{ m() ~ 'x' }}", "{% set x = 1 %}{% macro m() %}{{ x }}{% endmacro %}{% set x = 2 %}{{ m() }}", "{% macro f(n) %}{% if n > 0 %}{{ n }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(3) }}", "{% macro m() %}({{ caller() }}){% endmacro %}{% call m() %}x{{ n }}{% endcall %}", "{% macro m(xs) %}{% for x in xs %}{{ caller(x) }}{% endfor %}{% endmacro %}{% call(x) m(xs) %}<{{ x }}>{% endcall %}", "{% macro m(a, b=a) %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}", "{% macro m(a, b) %}{{ a }}{{ b }}{% endmacro %}{{ m(*[1, 2]) }}{{ m(**{'a': 3, 'b': 4}) }}{{ m(1, *[2]) }}", "{% macro m(x) %}{% set y = x %}{{ y }}{% endmacro %}{{ m(1) }}{{ y }}|", "{%- macro m(x) -%}\n  {{ x }}\n{%- endmacro -%}\n{{ m(1) }}", "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}B{% endmacro %}{{ a() }}",
    "{% generation %}a{{ n }}{% endgeneration %}b", "{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}{{ m.content }}{% endgeneration %}{% else %}{{ m.role }}{% endif %}{% endfor %}", "{% set x = 1 %}{% generation %}{% set x = 2 %}{{ x }}{% endgeneration %}{{ x }}", "{% raw %}{{ not }} {% this %}{% endraw %}", "{% raw -%}  {{ a }}  {%- endraw %}|", "a{# comment #}b", "a{#- comment -#} b", "{% print n %}", "{{ raise_exception('stop: ' ~ n) }}", "{% if false %}{{ raise_exception('x') }}{% endif %}ok", "{% if strftime_now is defined %}yes{% endif %}" if False else "{% if add_generation_prompt is defined %}yes{% else %}no{% endif %}", "{% if x %}", "{% endif %}", "{% foo %}", "{{ 1 + }}", "{{ (1 }}", "{% for x xs %}{% endfor %}", "{{ s | nothing }}", "{{ s is nothing }}", "{{ nothing() }}", "{{ s() }}", "{{ 'unclosed }}", "{{ a b }}", "{% if t %}a{% else if n %}b{% endif %}", "{% set messages = messages[1:] %}{{ messages[0].role }}", "{% set loop_messages = messages %}{{ loop_messages | length }}", "{% if not missing is defined %}a{% endif %}", "{% set x = missing | default(none) %}{{ x is none }}", "{% set true_ = true %}{{ true_ }}",
    "{% set first_user_prefix = '' if messages[0]['role'] != 'system' else messages[0].content + '\\n\\n' %}{{ first_user_prefix }}", "{{ messages[0].content if messages[0].role == 'system' else 'none' }}", "{{ bos_token ~ 'x' }}", "{{ missing ~ 'x' }}", "{{ missing + 'x' }}", "{{ 'x' + missing }}", "{{ d['missing'] + 'x' }}", "{{ missing() }}", "{{ -missing }}", "{{ missing | upper }}|", "{{ missing | join(',') }}|", "{{ missing | first }}|", "{{ missing | int }} {{ missing | float }}", "{{ missing[1:] }}", "{{ missing > 1 }}", "{{ missing and 1 }}|", "{{ [missing] }}", "{{ missing | string }}|", "{{ missing | trim }}|", "{{ missing | list }}", "{{ missing | replace('a', 'b') }}|", "{{ missing | tojson(indent=2) }}",
)
group(
    "white space",
    "a\n{% if t %}\nb\n{% endif %}\nc", "a\n  {% if t %}\n  b\n  {% endif %}\nc", "a  {% if t %}  b  {% endif %}  c", "a\n  {{ n }}\n b", "a\n  {{- n -}}\n b", "a \n {%- if t -%} \n b \n {%- endif -%} \n c", "a\n  {%+ if t %}\nb{% endif +%}\nc", "  {% if t %}x{% endif %}", "a\n   {# c #}\nb", "a {#- c #}\nb", "{{ n }}\n", "{{ n }}\n\n", "\n{{ n }}", "a\r\nb\r\n{{ n }}\r\n", "a\rb{{ 'x\r\ny' }}", "{% for m in messages %}\r\n{{ m.role }}\r\n{% endfor %}\r\nend", "{% if t %}\n\n{{ n }}\n\n{% endif %}\n\n", "x{% if t %} {% endif %}y", "{% if t %}\n  a\n{% endif %}", "\t{% if t %}\n\ta\n\t{% endif %}\n", "a{% if t -%}\n  b\n{%- endif %}c", "{%- if t %}\n    {{- 'a' }}\n{%- else %}\n    {{- 'b' }}\n{%- endif %}\n{{- 'c' }}", "{{ 'a' }}  \n  {{ 'b' }}", "{{ 'a' -}}  \n  {{ 'b' }}", "{{- ' x ' -}}", "a\u3000{%- if t %}b{% endif %}", "a\xa0\n{%- if t -%}\x85b{% endif %}", "{% raw %}\n a \n{% endraw %}\nb", "  {% raw %}a{% endraw %}", "a {%- raw -%} b {%- endraw -%} c", "{# a #}\n{# b #}\nx", "{% set x = 1 %}\n{% set y = 2 %}\n{{ x }}{{ y }}", "{% if t %}a{% endif %}\n{% if t %}b{% endif %}\n", "{{ n }}{% if t %}\n{% endif %}\nx", "  {{ n }}  {% if t %}  \n  x{% endif %}", "{%if t%}a{%endif%}", "{{n}}{{-n}}", "{%-if t-%} a {%-endif-%}", "x\n\n  {%- for i in xs %}\n  {{ i }}\n  {%- endfor %}\n\ny", "x{% for i in xs %}\n{{ i }}{% endfor %}", "   {%- if t %} a{% endif %}", "a\n\t {% set x = 1 %} \nb", "a\x0b{% if t %}b{% endif %}", "{{ n }} {# c #} \n x", "{% if t %}\n{{ n }}{% endif %}{{ '\\n' }}x",
)
group(
    "whole templates",
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<s>system\nDefault</s>\n' }}{% endif %}{{'<s>' + message['role'] + '\n' + message['content'] + '</s>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<s>assistant\n' }}{% endif %}",
    "{{ bos_token }}{% if messages[0]['role'] == 'system' %}{% set offset = 1 %}{% else %}{% set offset = 0 %}{% endif %}{% for m in messages %}{% if (m['role'] == 'user') != (loop.index0 % 2 == offset) %}{{ raise_exception('roles') }}{% endif %}{{ m.role }}: {{ m.content | trim }}\n{% endfor %}",
    "{%- set ns = namespace(multi=true, last=messages|length - 1) %}\n{%- for message in messages[::-1] %}\n    {%- set index = (messages|length - 1) - loop.index0 %}\n    {%- if ns.multi and message.role == \"user\" and message.content is string and not(message.content.startswith('<tool>') and message.content.endswith('</tool>')) %}\n        {%- set ns.multi = false %}\n        {%- set ns.last = index %}\n    {%- endif %}\n{%- endfor %}\n{{ ns.last }}{% for message in messages %}\n{%- set content = message.content %}\n{%- if '</think>' in content %}\n{%- set content = content.split('</think>')[-1].lstrip('\\n') %}\n{%- endif %}\n{{- '[' + message.role + ']' + content }}\n{%- endfor %}",
    "{%- if tools %}\n  {{- '# Tools\\n' }}\n  {%- for tool in tools %}\n    {{- \"\\n\" }}\n    {{- tool | tojson }}\n  {%- endfor %}\n{%- endif %}\n{%- for m in messages %}\n  {{- '\\n' ~ m.role ~ ': ' ~ m.content }}\n{%- endfor %}",
    "{%- macro type_of(p) -%}\n{%- if p.type is defined -%}{{ p.type }}{%- elif p.enum is defined -%}{{ p.enum | join(' | ') }}{%- else -%}any{%- endif -%}\n{%- endmacro -%}\n{%- for tool in tools -%}\n{%- set f = tool.function -%}\n// {{ f.description }}\ntype {{ f.name }} = (_: {\n{%- for name, p in f.parameters.properties.items() %}\n{{ name }}{{ '' if name in f.parameters.required else '?' }}: {{ type_of(p) }}{{ ',' if not loop.last }}{% if p.default is defined %} // default: {{ p.default }}{% endif %}\n{%- endfor %}\n}) => any;\n{%- endfor %}",
)


def main():
    cases = []
    for name, templates in groups.items():
        for template in templates:
            case = {"group": name, "template": template}
            try:
                case["text"] = _compile_jinja_template(template).render(**json.loads(json.dumps(DATA)))
            except Exception as error:
                case["error"] = f"{type(error).__name__}: {error}"[:200]
            cases.append(case)
    table = {
        "made by": "test/engine/jinja2/table.py",
        "versions": {"transformers": transformers.__version__, "jinja2": jinja2.__version__, "python": sys.version.split()[0]},
        "variables": DATA,
        "cases": cases,
    }
    Path(__file__).with_name("table.json").write_text(json.dumps(table, indent=1, ensure_ascii=True) + "\n")


main()
