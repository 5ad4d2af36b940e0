import { IsoproError } from '../../errors.js';
import { label } from '../../text/hostile-text.js';

/** Said of one that is not there, and in the same words of another key's. */
export const noRun = (name: string): IsoproError =>
  new IsoproError(
    'RUN_NOT_FOUND',
    `there is no run ${JSON.stringify(label(name, 80))} in the runs folder`,
  );
