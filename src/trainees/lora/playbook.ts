import { DECISION_WINDOW, MAX_DEFERRAL } from '../../monitor/decision.js';
import { PRECEDENCE, RULE_CLASS, type RuleConfig } from '../../monitor/rules.js';

/**
 * What each rule sees in LoRA weights, and what is done about it. A policy that is a language model
 * gets it word for word.
 */
export function playbook(config: RuleConfig): string {
  const {
    r1,
    r2,
    r3,
    r4,
    r5,
    r6,
    r7,
    persistence: n,
    alpha,
    coolDown,
    recurrenceWindow,
    objectiveTarget,
  } = config;
  const inARow = `in ${n} iterations in a row`;
  const section = (
    title: string,
    symptoms: string,
    cause: string,
    remedy: string,
    caveat: string,
  ): string =>
    `## ${title}\n\n**Symptoms.** ${symptoms}\n\n**Cause.** ${cause}\n\n**Remedy.** ${remedy}\n\n**Caveat.** ${caveat}\n`;
  return [
    '# Playbook\n\n' +
      'This text explains; `evaluateRules` decides. Rules are evaluated once an iteration, on what the trainer measured before clipping. ' +
      `Signals\nthat have a scale are smoothed as logarithms (factor ${alpha}), and a rule fires when its signal stays outside its band ` +
      `${inARow}; R7 fires at\nonce on anything that is not finite. Iterations without any informative group give R1, R2, R5 and R6 no ` +
      `reading.\n\nWhere several rules fire, act on the first of ${PRECEDENCE.join(', ')} and defer the others to it. A decision cites ` +
      `exactly one rule and comes at\nthe iteration where it fired or at most ${DECISION_WINDOW} later. A deferral names an iteration at ` +
      `most ${MAX_DEFERRAL} ahead at which its rule must be clear. After an executed remedy\nits rule is silent for ${coolDown} ` +
      `iteration and measures anew; if it fires again within ${recurrenceWindow} iterations, that is a recurrence.\n`,
    section(
      `R1 Learning rate (${RULE_CLASS.R1})`,
      `The effective weights move by more than ${r1.updateRatioHigh} or less than ${r1.updateRatioLow} of their size per step (median ` +
        `over modules) ${inARow}; or the policy moves by more than ${r1.klHigh} nats per token; or the train objective, below ` +
        `${objectiveTarget}, does not improve beyond its noise for ${r1.plateauPatience} iterations.`,
      'The learning rate does not fit the adapter, its scale or the batch.',
      'High or plateau: `set_lr` to between a tenth and a third. Low: `set_lr` to between 1.5 and 3 times.',
      'Leave the rate alone while R6 or R7 fires. A plateau under growing gradient noise may be R2.',
    ),
    section(
      `R2 Batch size (${RULE_CLASS.R2})`,
      `The gradient noise scale over the batch size stays above ${r2.noiseToBatchHigh} or below ${r2.noiseToBatchLow} ${inARow}.`,
      'High: one step sees too few sequences to know its direction. Low: sequences are spent on directions that are known already.',
      'High: `set_batch` to the double. Low: `set_batch` to the half, not below 8.',
      'Wait one iteration after an action on R1: the noise scale follows the rate.',
    ),
    section(
      `R3 Early stop (${RULE_CLASS.R3})`,
      `Each of the last ${r3.patience} evaluations, compared problem by problem with the best one before them, speaks against a gain of ` +
        `${r3.minGain} (score below -${r3.z}); or the held-out loss has not fallen by ${r3.minDelta} in them.`,
      'The run has learned what it can, or has begun to learn its training problems by heart.',
      '`stop`, restoring the best adapter.',
      'It comes last. Defer it while a remedy of another rule has not had its effect yet.',
    ),
    section(
      `R4 Capacity (${RULE_CLASS.R4})`,
      `The slope of the train objective over ${r4.window} iterations is below ${r4.saturationGap} by one standard error ${inARow}, the ` +
        `objective is below ${objectiveTarget}, and at least half of the modules use ${r4.rankUse} of their rank.`,
      'The adapter has no direction left to learn in.',
      '`raise_rank` of the modules that are full, or `add_target`. The function stays as it is.',
      'It does not fire with sick gradients or a rate out of its band; settle those first.',
    ),
    section(
      `R5 Dormant directions (${RULE_CLASS.R5})`,
      `In some module more than ${r5.dormantFraction} of the adapter's directions contribute next to nothing (smoothed) ${inARow}, not ` +
        `before ${r5.minSteps} steps after they were made.`,
      'Directions died: too high a rate early on, weight decay, or more rank than the task needs.',
      '`recycle` the dormant directions: drawn anew, with zero output and fresh moments.',
      'Too high a learning rate looks the same: settle R7 first.',
    ),
    section(
      `R6 Vanishing gradients (${RULE_CLASS.R6})`,
      `The gradient of some module is below ${r6.relativeGradientLow} of the median module's, for its size, ${inARow}, or exactly zero.`,
      'The module is cut off: underflow, a factor of the adapter near zero, or nothing flows through it.',
      '`lr_mult` or `raise_precision` first, then `rebalance` or `rescale` of that module. The function stays as it is.',
      'Beats everything but R7. Iterations without informative groups are not vanishing gradients.',
    ),
    section(
      `R7 Exploding gradients (${RULE_CLASS.R7})`,
      `Something is not finite: at once. Or the largest module gradient is above ${r7.ratioHigh} times its running median, or more than ` +
        `half of the steps lie ${r7.zHigh} deviations out, or more than ${r7.clipFraction} of the steps are clipped that were not at ` +
        `first, ${inARow}.`,
      'The rate is too high, or a batch is broken.',
      'Not finite: `rollback` to the last sound adapter with a tenth of the rate. Else `set_lr` to a tenth and `set_clip`.',
      'Always first. A step that is not finite was never applied.',
    ),
  ].join('\n');
}
