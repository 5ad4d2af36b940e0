import { menuOf, type Menu, type MenuContext } from '../../monitor/menu.js';
import { LORA, type LoraTypes } from './trainee.js';

/**
 * Every admissible answer to a rule that fired on LoRA weights: decisions that can be returned as
 * they are, with digests and the values that they change filled in.
 */
export const menu = (context: MenuContext<LoraTypes>): Menu<LoraTypes> => menuOf(LORA, context);
