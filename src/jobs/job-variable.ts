/** Told to a command that it is a job: it has a channel to its queue (src/cli/job-channel.ts). */
export const JOB_VARIABLE = 'ISOPRO_JOB';
