/** What a template says, as a tree. Names are jinja2's. */

export type Operator = '+' | '-' | '*' | '/' | '//' | '%' | '**';
export type Comparison = '==' | '!=' | '<' | '<=' | '>' | '>=' | 'in' | 'not in';

export interface Keyword {
  readonly name: string;
  readonly value: Expression;
}
export interface Arguments {
  readonly positional: readonly Expression[];
  readonly keywords: readonly Keyword[];
  /** `*list` */
  readonly spread: Expression | null;
  /** `**dict` */
  readonly spreadKeywords: Expression | null;
}

export type Expression =
  | { readonly kind: 'constant'; readonly value: string | bigint | number | boolean | null }
  | { readonly kind: 'name'; readonly name: string }
  | { readonly kind: 'list' | 'tuple'; readonly members: readonly Expression[] }
  | { readonly kind: 'dict'; readonly entries: readonly (readonly [Expression, Expression])[] }
  | { readonly kind: 'attribute'; readonly of: Expression; readonly name: string }
  | { readonly kind: 'item'; readonly of: Expression; readonly at: Expression }
  | {
      readonly kind: 'slice';
      readonly of: Expression;
      readonly from: Expression | null;
      readonly to: Expression | null;
      readonly step: Expression | null;
    }
  | { readonly kind: 'call'; readonly called: Expression; readonly given: Arguments }
  /** `of` is null at the head of a filter block. */
  | {
      readonly kind: 'filter';
      readonly name: string;
      readonly of: Expression | null;
      readonly given: Arguments;
    }
  | {
      readonly kind: 'test';
      readonly name: string;
      readonly of: Expression;
      readonly given: Arguments;
      readonly negated: boolean;
    }
  | { readonly kind: 'negative' | 'positive' | 'not'; readonly of: Expression }
  | {
      readonly kind: 'operation';
      readonly operator: Operator;
      readonly left: Expression;
      readonly right: Expression;
    }
  | { readonly kind: 'concatenation'; readonly parts: readonly Expression[] }
  | {
      readonly kind: 'comparison';
      readonly first: Expression;
      readonly rest: readonly (readonly [Comparison, Expression])[];
    }
  | { readonly kind: 'and' | 'or'; readonly left: Expression; readonly right: Expression }
  | {
      readonly kind: 'condition';
      readonly test: Expression;
      readonly then: Expression;
      readonly otherwise: Expression | null;
    };

/** What a value is given to. */
export type Target =
  | { readonly kind: 'name'; readonly name: string }
  | { readonly kind: 'member'; readonly of: string; readonly name: string }
  | { readonly kind: 'targets'; readonly targets: readonly Target[] };

export interface Parameter {
  readonly name: string;
  readonly fallback: Expression | null;
}

export type Filter = Extract<Expression, { kind: 'filter' }>;

export type Statement =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'output'; readonly of: Expression }
  | {
      readonly kind: 'for';
      readonly target: Target;
      readonly over: Expression;
      readonly test: Expression | null;
      readonly recursive: boolean;
      readonly body: readonly Statement[];
      readonly otherwise: readonly Statement[];
    }
  | {
      readonly kind: 'if';
      readonly branches: readonly {
        readonly test: Expression;
        readonly body: readonly Statement[];
      }[];
      readonly otherwise: readonly Statement[];
    }
  | { readonly kind: 'set'; readonly target: Target; readonly value: Expression }
  | {
      readonly kind: 'set block';
      readonly target: Target;
      readonly filter: Filter | null;
      readonly body: readonly Statement[];
    }
  | {
      readonly kind: 'with';
      readonly values: readonly (readonly [Target, Expression])[];
      readonly body: readonly Statement[];
    }
  | {
      readonly kind: 'macro';
      readonly name: string;
      readonly parameters: readonly Parameter[];
      readonly body: readonly Statement[];
    }
  | {
      readonly kind: 'call block';
      readonly parameters: readonly Parameter[];
      readonly call: Extract<Expression, { kind: 'call' }>;
      readonly body: readonly Statement[];
    }
  | { readonly kind: 'filter block'; readonly filter: Filter; readonly body: readonly Statement[] }
  | { readonly kind: 'generation'; readonly body: readonly Statement[] }
  | { readonly kind: 'break' | 'continue' }
  /** A statement of jinja2 that is not covered here. */
  | { readonly kind: 'unknown'; readonly name: string };

/** What statements and expressions hold directly, for whoever walks through a tree. */
export function childrenOf(node: Statement | Expression): (Statement | Expression)[] {
  const found: (Statement | Expression)[] = [];
  const collect = (value: unknown): void => {
    if (typeof value !== 'object' || value === null) return;
    if ('kind' in value && value.kind !== 'member' && value.kind !== 'targets')
      found.push(value as Statement | Expression);
    else for (const member of Object.values(value)) collect(member);
  };
  for (const [name, member] of Object.entries(node)) if (name !== 'target') collect(member);
  return found;
}
