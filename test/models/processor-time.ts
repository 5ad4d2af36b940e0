/**
 * Milliseconds of the processor that this process took since a moment, in all its threads: what a
 * limit of time is held against where other programs may hold the test up.
 * @param since of process.cpuUsage()
 */
export function processorMs(since: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(since);
  return (user + system) / 1000;
}
