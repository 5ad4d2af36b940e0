import { IsoproError } from '../errors.js';

/**
 * Settings that nothing can be done with, as it turns out while they are followed: wrong usage, as
 * is what a schema refuses.
 */
export class WrongSettings extends IsoproError {
  constructor(message: string) {
    super('INVALID_ARGUMENT', message);
  }
}
