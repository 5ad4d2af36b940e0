import { requireAdapter as required } from '../../operations/truth/adapter-of-run.js';
import { UsageError } from '../output.js';

/** @throws UsageError as the operations say it, with the flag's name */
export function requireAdapter(...of: Parameters<typeof required>): void {
  try {
    required(...of);
  } catch (error) {
    throw new UsageError(`--${(error as Error).message}`);
  }
}
