/** Mutants of TypeScript: the places that a source has for each operator. */
import { parseSync } from '@swc/core';

const PARSER = { syntax: 'typescript', explicitResourceManagement: true };
const COMPARISONS = {
  '<': '<=',
  '<=': '<',
  '>': '>=',
  '>=': '>',
  '===': '!==',
  '!==': '===',
  '==': '!=',
  '!=': '==',
};
const SIGNS = { '+': '-', '-': '+', '+=': '-=', '-=': '+=', '++': '--', '--': '++' };
/** Of the nodes for types, those that hold an expression. */
const WITH_EXPRESSION = new Set([
  'TsAsExpression',
  'TsNonNullExpression',
  'TsSatisfiesExpression',
  'TsConstAssertion',
  'TsInstantiation',
]);
const REMOVED = new Set([
  'ExpressionStatement',
  'ThrowStatement',
  'BreakStatement',
  'ContinueStatement',
  'ReturnStatement',
]);

/**
 * Calls whose value does not depend on the order of their arguments: swapped ones are the same
 * program.
 */
const UNORDERED = new Set(['Math.max', 'Math.min', 'Math.hypot']);

/** From the byte offsets of swc to those of the text. */
function offsetsOf(text) {
  const bytes = Buffer.byteLength(text);
  if (bytes === text.length) return (at) => at;
  const offsets = new Uint32Array(bytes + 1);
  let at = 0;
  for (let i = 0; i < text.length; ) {
    const character = String.fromCodePoint(text.codePointAt(i));
    offsets.fill(i, at, at + Buffer.byteLength(character));
    at += Buffer.byteLength(character);
    i += character.length;
  }
  offsets[bytes] = text.length;
  return (byte) => offsets[byte];
}

const isText = ({ type, operator, left, right }) =>
  type === 'StringLiteral' ||
  type === 'TemplateLiteral' ||
  (type === 'BinaryExpression' && operator === '+' && (isText(left) || isText(right)));

/** Each node that is no type. */
function* nodesOf(node) {
  if (Array.isArray(node)) {
    for (const each of node) yield* nodesOf(each);
  } else if (typeof node === 'object' && node !== null) {
    const { type } = node;
    if (typeof type === 'string' && type.startsWith('Ts') && type !== 'TsParameterProperty') {
      if (WITH_EXPRESSION.has(type)) yield* nodesOf(node.expression);
      return;
    }
    if (typeof type === 'string') yield node;
    for (const [name, member] of Object.entries(node)) if (name !== 'span') yield* nodesOf(member);
  }
}

/**
 * Places by operator, each with what stands there and what is put in its place.
 * @returns {{operator, at, start, end, after}[]}
 */
export function placesOf(text) {
  // Where the counting begins is where a statement before all others begins.
  const { body, span } = parseSync(`;${text}`, { ...PARSER, target: 'es2022' });
  const offset = offsetsOf(text);
  const from = (node) => offset(node.span.start - span.start - 1);
  const to = (node) => offset(node.span.end - span.start - 1);
  const of = (node) => text.slice(from(node), to(node));
  const places = [];
  const add = (operator, node, after, at = from(node)) =>
    places.push({ operator, at, start: from(node), end: to(node), after });
  const between = (operator, node, [first, last], other) => {
    const at = text.indexOf(node.operator, first);
    if (other !== undefined && at >= 0 && at < last)
      add(
        operator,
        node,
        `${text.slice(from(node), at)}${other}${text.slice(at + node.operator.length, to(node))}`,
        at,
      );
  };
  /** Breaks at the end of a switch, without which it ends there too. */
  const idle = new Set();
  for (const node of nodesOf(body.slice(1))) {
    const { type, operator } = node;
    if (type === 'SwitchStatement') {
      let last = node.cases.at(-1)?.consequent.at(-1);
      while (last?.type === 'BlockStatement') last = last.stmts.at(-1);
      if (last?.type === 'BreakStatement') idle.add(last);
    }
    if (type === 'BinaryExpression') {
      const gap = [to(node.left), from(node.right)];
      between('comparison', node, gap, COMPARISONS[operator]);
      if (!isText(node)) between('sign', node, gap, SIGNS[operator]);
    } else if (type === 'AssignmentExpression') {
      if (!isText(node.right))
        between('sign', node, [to(node.left), from(node.right)], SIGNS[operator]);
    } else if (type === 'UpdateExpression')
      between('sign', node, [from(node), to(node)], SIGNS[operator]);
    else if (type === 'UnaryExpression' && operator === '-')
      add('sign', node, `(${of(node.argument)})`);
    else if (type === 'NumericLiteral')
      for (const by of [1, -1]) add('constant', node, `(${node.value + by})`);
    else if (type === 'BigIntLiteral')
      for (const by of ['+', '-']) add('constant', node, `(${of(node)} ${by} 1n)`);
    else if (
      (type === 'CallExpression' || type === 'NewExpression') &&
      !UNORDERED.has(of(node.callee))
    ) {
      const given = (node.arguments ?? []).map(({ spread, expression }) =>
        spread === null ? expression : null,
      );
      for (const [i, second] of given.entries()) {
        const first = given[i - 1];
        if (!first || !second || of(first) === of(second)) continue;
        const after = [
          text.slice(from(node), from(first)),
          of(second),
          text.slice(to(first), from(second)),
          of(first),
        ].join('');
        add('argument swapped', node, after + text.slice(to(second), to(node)), from(first));
      }
    }
    // A function that has to give something and does not is refused by the compiler.
    if (REMOVED.has(type) && !idle.has(node) && !(type === 'ReturnStatement' && node.argument))
      add('statement removed', node, ';');
    if (node.test?.span !== undefined && type !== 'SwitchCase')
      add('condition negated', node.test, `!(${of(node.test)})`);
  }
  return places;
}
