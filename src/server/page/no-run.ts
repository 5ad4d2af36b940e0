import { IsoproError } from '../../errors.js';
import { label } from '../../text/hostile-text.js';

/** Error for a missing run; a run of another key gets the same message. */
export const noRun = (name: string): IsoproError =>
  new IsoproError(
    'RUN_NOT_FOUND',
    `there is no run ${JSON.stringify(label(name, 80))} in the runs folder`,
  );
