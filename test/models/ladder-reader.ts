/**
 * A reader that takes a question of the ladder at its word. It imports nothing and receives only
 * the question's text: words and numbers are read from its lines, facts from its sentences.
 */
const VERBS: Readonly<Record<string, RegExp>> = {
  live: /^(\w+) lives in (\w+)$/,
  like: /^(\w+) likes (\w+)$/,
  have: /^(\w+) has a (\w+)$/,
  shoes: /^(\w+) wears (\w+) shoes$/,
};

/** Insertion, one number after another; the reverse of nothing that it is compared with. */
function inOrder(numbers: readonly string[], before: (a: number, b: number) => boolean): string[] {
  const result: string[] = [];
  for (const number of numbers) {
    const at = result.findIndex((other) => before(Number(number), Number(other)));
    result.splice(at < 0 ? result.length : at, 0, number);
  }
  return result;
}

function answerQuestion(context: string, question: string): string {
  const who = /(?:does|of) (\w+)/.exec(question)![1]!;
  const verb = Object.keys(VERBS).find((name) => question.includes(name))!;
  for (const sentence of context.split('.').map((text) => text.trim())) {
    const told = VERBS[verb]!.exec(sentence);
    if (told !== null && told[1] === who) return told[2]!;
  }
  return 'unknown';
}

export function answerLadder(question: string): string {
  const sum = /^What is ([\d +-]+)\?$/.exec(question);
  if (sum !== null) {
    let total = 0;
    for (const [, sign, digits] of sum[1]!.matchAll(/([+-]?) ?(\d+)/g))
      total += sign === '-' ? -Number(digits) : Number(digits);
    return `${total}`;
  }
  const [instruction, line] = question.split('\n') as [string, string];
  if (line.includes('?')) return answerQuestion(instruction, line);
  const items = line.split(' ');
  const [first = 0, second = 0] = [...instruction.matchAll(/\d+/g)].map(([digits]) =>
    Number(digits),
  );
  if (instruction.includes('capital')) items[first - 1] = items[first - 1]!.toUpperCase();
  else if (instruction.includes('without')) items.splice(first - 1, 1);
  else if (instruction.includes('swapped'))
    items.splice(first - 1, 2, items[second - 1]!, items[first - 1]!);
  else if (instruction.includes('of the list')) return items[first - 1]!;
  else if (instruction.includes('largest of')) return `${Math.max(...items.map(Number))}`;
  else if (instruction.includes('smallest of')) return `${Math.min(...items.map(Number))}`;
  else if (instruction.includes('from smallest')) return inOrder(items, (a, b) => a < b).join(' ');
  else if (instruction.includes('from largest')) return inOrder(items, (a, b) => a > b).join(' ');
  else if (instruction.includes('reverse')) {
    let turned = '';
    for (const item of items) turned = turned === '' ? item : `${item} ${turned}`;
    return turned;
  } else throw new Error(`what does this ask for? ${question}`);
  return items.join(' ');
}
