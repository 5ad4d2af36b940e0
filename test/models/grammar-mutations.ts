/** Seeded mutations of GBNF texts. */
import { Random } from '../../src/random.js';

export interface GrammarMutant {
  readonly label: string;
  readonly harmless: boolean;
  readonly text: string;
}

const GRAMMARS: readonly string[] = [
  'root ::= "yes" | "no"',
  'root ::= [a-z]+ " " [0-9]{2,4} "\\n"?',
  'root ::= object\nobject ::= "{" ws (pair ("," ws pair)*)? "}" ws\npair ::= string ":" ws value\nvalue ::= object | string | number | ' +
    '"true" | "null"\nstring ::= "\\"" [^"\\\\]* "\\"" ws\nnumber ::= "-"? [0-9]+ ("." [0-9]+)? ws\nws ::= [ \\t\\n]*',
  'root ::= item{3} tail\nitem ::= "- " [^\\n]* "\\n"\ntail ::= ("end" | "done" tail?) # comment',
  'root ::= . .* ',
  'root ::= ([\\u0041-\\U0001F600] | "\\x41" | "ä")+',
];

/**
 * What explodes in a naive parser or matcher: deep nesting, left recursion, huge counts, ambiguity.
 */
const HOSTILE: readonly ((random: Random) => string)[] = [
  (random) => `root ::= ${'('.repeat(random.nextInteger(1, 200_000))}"a"`,
  (random) => {
    const depth = random.nextInteger(1, 100_000);
    return `root ::= ${'('.repeat(depth)}"a"${')'.repeat(depth)}`;
  },
  () => 'root ::= root "a" | "b"',
  () => 'root ::= root',
  () => 'root ::= (root)',
  () => 'root ::= "" root',
  () => 'root ::= "a" root',
  () => 'root ::= a\na ::= a',
  () => 'root ::= "x" a\na ::= b\nb ::= a',
  () => 'root ::= a\na ::= b\nb ::= a "x" | "y"',
  () => 'root ::= e root "z" | "x"\ne ::= f\nf ::= "" | "y"',
  () => 'root ::= (("" | "a")*)*',
  () => 'root ::= ((("a"?)*)*)*',
  () => 'root ::= "a"{5,2}',
  (random) => `root ::= "a"{${random.nextInteger(0, 100_000)}}`,
  () => 'root ::= "a"{1000000000000000000000}',
  () => 'root ::= "a"{0,99999999}',
  () => `root ::= "${'ab'.repeat(5000)}"{2000}`,
  () => 'root ::= (((("a"{100}){100}){100}){100}){100}',
  (random) => {
    const n = random.nextInteger(10, 60);
    return `root ::= r0\n${Array.from({ length: n }, (_, i) => `r${i} ::= r${i + 1}? r${i + 1}?`).join('\n')}\nr${n} ::= "a"`;
  },
  (random) => {
    const n = random.nextInteger(10, 60);
    return `root ::= r0\n${Array.from({ length: n }, (_, i) => `r${i} ::= r${i + 1} | r${i + 1}`).join('\n')}\nr${n} ::= "a"`;
  },
  (random) => {
    const n = random.nextInteger(100, 60_000);
    return `root ::= r0\n${Array.from({ length: n }, (_, i) => `r${i} ::= r${i + 1}`).join('\n')}\nr${n} ::= "a"`;
  },
  () => 'root ::= . root "b" | . root "c" | .',
  () => 'root ::= (. | .)*',
  () => 'root ::= (. | . . | . . .)* "never"',
  () => 'root ::= ([a-z ]* [a-z ]*)* "!"',
  () => 'other ::= "a"',
  () => 'root ::= missing',
  () => 'root ::=',
  () => 'root ::= ""',
  () => 'root ::= []',
  () => 'root ::= [^]',
  () => 'root ::= [z-a]',
  () => 'root ::= "\\q"',
  () => 'root ::= "\\xZZ"',
  () => 'root ::= "\\U00110000"',
  () => 'root ::= "open',
  () => 'root ::= [open',
  () => 'root ::= <[99999999999]>',
  () => 'root ::= <|im_end|>',
  () => 'root ::= !<[3]> "a"',
  () => 'root ::= *',
  () => 'root ::= "a"**',
  () => 'root ::= "a" ) "b"',
  () => 'root = "a"',
  () => '::=',
  () => '#',
  () => ' ',
  () => '\0',
  () => 'root ::= "a\0b"',
  () => 'root ::= "a"\nroot ::= "b"',
];

const ALPHABET = [
  ...'()[]{}"\'|*+?.:=<>!#\\-^ab09 \n\t,\0é',
  '::=',
  'root',
  '\\x',
  '\\u',
  '{1,',
  '}*',
  '\ufffd',
  '😀',
];

const HARMLESS: readonly ((grammar: string) => string)[] = [
  (grammar) => `${grammar}\n`,
  (grammar) => `# a comment\n\n${grammar}\n\n# the end`,
  (grammar) => `${grammar}\nunused ::= "x" [0-9]*`,
  (grammar) => grammar.replaceAll(' ::= ', '  ::=   '),
  (grammar) => grammar.replace(/^root ::= (.*)$/m, 'root ::= ($1)').replace(/ # comment\)/, ')'),
];

export function mutateGrammar(seed: number): GrammarMutant {
  const random = new Random(BigInt(seed));
  const pick = <T>(items: readonly T[]): T => items[random.nextInteger(0, items.length - 1)]!;
  const grammar = pick(GRAMMARS);
  const kind = random.nextInteger(0, 9);
  if (kind === 0) return { label: 'harmless', harmless: true, text: pick(HARMLESS)(grammar) };
  if (kind <= 3) {
    const text = pick(HOSTILE)(random);
    return { label: text.slice(0, 80), harmless: false, text };
  }
  let text = grammar;
  for (let i = random.nextInteger(1, 4); i > 0; i--) {
    const at = random.nextInteger(0, text.length);
    const length = random.nextInteger(0, 3);
    const insertion = pick([
      () => pick(ALPHABET),
      () => '',
      () => pick(GRAMMARS).slice(random.nextInteger(0, 9), random.nextInteger(10, 30)),
      () => String(random.nextInteger(0, 5000)),
    ])();
    text = text.slice(0, at) + insertion + text.slice(at + length);
  }
  return { label: text.slice(0, 200), harmless: false, text };
}
