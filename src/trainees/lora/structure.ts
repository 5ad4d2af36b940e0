/**
 * What LoRA weights are made of: the rank of each adapted module, and the scale that its product BA
 * is multiplied by.
 */
import { z } from 'zod';
import type { ModuleForm } from '../../monitor/trainee.js';

const form = z.object({ rank: z.number().int().min(1), scale: z.number() });
export type LoraModule = z.infer<typeof form>;

/** Scales pass through f32. */
const sameScale = (a: number, b: number): boolean => Math.abs(a - b) <= 1e-5 * Math.abs(b);

export const LORA_MODULE: ModuleForm<LoraModule> = {
  form,
  difference(expected, found, exported) {
    if (expected.rank !== found.rank)
      return `has rank ${found.rank} and should have ${expected.rank}`;
    // a file has scales multiplied in
    return exported || sameScale(found.scale, expected.scale)
      ? null
      : `has scale ${found.scale} and should have ${expected.scale}`;
  },
};
