/** The policy that does what the playbook says. */
import type { Evaluation, RuleEvaluation } from '../../monitor/evaluate-rules.js';
import { defer, type Menu, type MenuOption } from '../../monitor/menu.js';
import type { RuleId } from '../../monitor/rules.js';
import { menu } from './menu.js';
import type { LoraDecision, LoraDecisionContext, LoraTypes } from './trainee.js';

type Asked = Pick<LoraDecisionContext, 'rule' | 'evaluations' | 'settings'>;

/** The playbook's table: the options that it prefers, the first that is on the menu. */
function preferred(rule: RuleId, { side, recurrence }: RuleEvaluation): readonly string[] {
  switch (rule) {
    case 'R1':
      return [side === 'low' ? 'set_lr x2' : 'set_lr x1/3'];
    case 'R2':
      return [side === 'low' ? 'set_batch x1/2' : 'set_batch x2'];
    case 'R3':
      return ['stop'];
    case 'R4':
      return ['raise_rank x1.5'];
    case 'R5':
      return ['recycle'];
    case 'R6':
      // Adam's steps do not depend on the gradient's size, so that a larger scale makes them
      // larger: little at a time
      return ['rescale usual', recurrence ? 'rescale x4' : 'lr_mult x4'];
    case 'R7':
      return [side === 'nonfinite' ? 'rollback' : 'set_lr x1/10, set_clip'];
  }
}

/** The option of a menu that the playbook prefers; the longest deferral where it has none. */
export const scriptedOption = (
  { rule, evaluations }: Asked,
  options: Menu<LoraTypes>,
): MenuOption<LoraTypes> => preference(rule, evaluations, options) ?? options.at(-1)!;

function preference(
  rule: RuleId,
  evaluations: Asked['evaluations'],
  options: Menu<LoraTypes>,
): MenuOption<LoraTypes> | null {
  const { rules } = evaluations.at(-1) as Evaluation;
  for (const id of preferred(rule, rules[rule])) {
    const option = options.find((each) => each.id === id);
    if (option !== undefined) return option;
  }
  return null;
}

/** Does what the playbook says. */
export const scripted = {
  name: 'scripted',
  decide(context: Asked): LoraDecision {
    const { rule, evaluations } = context;
    return (
      preference(rule, evaluations, menu(context))?.decision ??
      defer(
        rule,
        (evaluations.at(-1) as Evaluation).iteration,
        `${rule}: its remedy is exhausted (a bound is reached, or no module is left to change)`,
      )
    );
  },
};
