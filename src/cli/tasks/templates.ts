/** The files that `tasks new` writes: whole tasks that run as they stand, to be changed. */

export interface TaskAnswers {
  /** Question for the model, with `{a}` and `{b}` for two numbers. */
  readonly ask: string;
  /** The right answer, an expression of a and b in the language of the file. */
  readonly answer: string;
  /** The largest number of each tier, from the easiest. */
  readonly tiers: readonly (readonly [name: string, largest: number])[];
  /** Type of the answer, which decides how a reply is checked. */
  readonly check: 'number' | 'text';
  readonly id: string;
}

export function scriptTask({ ask, answer, tiers, check, id }: TaskAnswers): string {
  const largest = tiers.map(([name, most]) => `${JSON.stringify(name)}: ${most}`).join(', ');
  const right =
    check === 'number'
      ? 'Number(answer) === Number(solve(problem))'
      : 'answer.toLowerCase() === String(solve(problem)).toLowerCase()';
  return `import { defineTask, Random } from 'isopro-native';

interface Problem {
  a: number;
  b: number;
}

const QUESTION = ${JSON.stringify(ask)};

/**
 * The largest number of each tier. A tier needs some hundreds of different problems: 120 are kept
 * for evaluation.
 */
const LARGEST: Record<string, number> = { ${largest} };

/** The right answer. */
const solve = ({ a, b }: Problem) => ${answer};

export default defineTask<Problem, string>({
  id: ${JSON.stringify(id)},
  version: '1', // change it with every change of problems, prompts or verdicts
  tiers: Object.keys(LARGEST).map((id) => ({ id })),

  // the seed alone decides: no clock, no Math.random
  generate(tier, seed) {
    const random = new Random(seed);
    const number = () => random.nextInteger(0, LARGEST[tier]!);
    return { a: number(), b: number() };
  },

  // states every rule that verify enforces
  prompt({ a, b }, style) {
    const question = QUESTION.replaceAll('{a}', String(a)).replaceAll('{b}', String(b));
    const how = style === 'cot' ? 'Think step by step. Then give the answer' : 'Give only the answer,';
    return [{ role: 'user', content: \`\${question}\\n\${how} between <answer> and </answer>.\` }];
  },

  // strict: one answer, or the reason why not
  parse(text) {
    const found = [...text.matchAll(/<answer>([^<]*)<\\/answer>/g)];
    return found.length === 1
      ? { ok: true, answer: found[0]![1]!.trim(), form: 'answer' }
      : { ok: false, category: 'format', detail: 'There has to be one answer between <answer> and </answer>.' };
  },

  verify: (problem, answer) =>
    answer !== '' && ${right}
      ? { kind: 'pass' }
      : { kind: 'fail', violations: [{ category: 'wrong', detail: \`\${answer} is not right.\` }] },

  // for solved examples, and to check the verifier by: \`tasks check\`
  referenceReply: (problem) => \`<answer>\${solve(problem)}</answer>\`,

  // programs without a model, whose accuracy a model has to exceed
  trivialPolicies: { 'the first number': ({ a }) => String(a), zero: () => '0' },
});
`;
}

export function pythonTask({ ask, answer, tiers, check, id }: TaskAnswers): string {
  const largest = tiers.map(([name, most]) => `${JSON.stringify(name)}: ${most}`).join(', ');
  return `"""A task for isopro-native; docs/python-task.md says what each name is."""

import random
import re

ID = ${JSON.stringify(id)}
VERSION = "1"  # change it with every change of problems, prompts or verdicts

QUESTION = ${JSON.stringify(ask)}

# The largest number of each tier. A tier needs some hundreds of different problems: 120 are kept
# for evaluation.
LARGEST = {${largest}}


def solve(a, b):
    """The right answer."""
    return ${answer}


def tiers():
    return list(LARGEST)


def problem(tier, seed):  # the seed alone decides: no clock
    numbers = random.Random(seed)
    return {"a": numbers.randint(0, LARGEST[tier]), "b": numbers.randint(0, LARGEST[tier])}


def prompt(problem, style):  # states every rule that verify enforces
    question = QUESTION.replace("{a}", str(problem["a"])).replace("{b}", str(problem["b"]))
    how = "Think step by step. Then give the answer" if style == "cot" else "Give only the answer,"
    return f"{question}\\n{how} between <answer> and </answer>."


def verify(problem, reply):
    found = re.findall("<answer>([^<]*)</answer>", reply)
    if len(found) != 1 or not found[0].strip():
        return {"outcome": "fail", "category": "format", "reason": "There has to be one answer between <answer> and </answer>."}
    answer = found[0].strip()
${
  check === 'number'
    ? `    try:
        right = float(answer) == float(solve(problem["a"], problem["b"]))
    except ValueError:
        return {"outcome": "fail", "category": "format", "reason": f"{answer} is not a number."}`
    : `    right = answer.lower() == str(solve(problem["a"], problem["b"])).lower()`
}
    return {"outcome": "pass" if right else "fail", "answer": answer, "reason": f"{answer} is not right."}


def solution(problem):  # for solved examples, and to check the verifier by: tasks check
    return f"<answer>{solve(problem['a'], problem['b'])}</answer>"


# programs without a model, whose accuracy a model has to exceed
POLICIES = {
    "the first number": lambda problem: f"<answer>{problem['a']}</answer>",
    "zero": lambda problem: "<answer>0</answer>",
}
`;
}
