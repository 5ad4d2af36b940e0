/**
 * A reader that takes a scheduling prompt at its word. It imports nothing and receives only the
 * prompt string: jobs, durations, resource use, order, deadlines, horizon and capacities are read
 * from the sentences, the form of the answer from the sample block, and a schedule is searched that
 * keeps exactly what was said.
 */
interface ReadJob {
  readonly label: string;
  readonly duration: number;
  readonly uses: Readonly<Record<string, number>>;
  readonly after: readonly string[];
  readonly due: number;
}

const singular = (word: string): string => word.replace(/s$/, '');

export function answerLiterally(prompt: string): string {
  const horizon = Number(/^- Every job must end by time (\d+)\.$/m.exec(prompt)![1]);
  const capacities: Record<string, number> = {};
  for (const [, amount, name] of prompt.matchAll(
    /at no time may the running jobs together use more than (\d+) (\w+)\./g,
  ))
    capacities[singular(name!)] = Number(amount);
  const jobs: ReadJob[] = [];
  for (const [, label, text] of prompt.matchAll(/^Job ([A-Z]) (takes .*)\.$/gm)) {
    const clauses = text!.split('; ');
    const job = {
      label: label!,
      duration: 0,
      uses: {} as Record<string, number>,
      after: [] as string[],
      due: horizon,
    };
    for (const clause of clauses) {
      const [takes, uses, after, due] = [
        /^takes (\d+) steps?$/,
        /^uses (.*) while it runs$/,
        /^cannot start before Jobs? (.*) (?:has|have) ended$/,
        /^must end by time (\d+)$/,
      ].map((pattern) => pattern.exec(clause));
      if (takes) job.duration = Number(takes[1]);
      else if (uses)
        for (const [, amount, name] of uses[1]!.matchAll(/(\d+) (\w+)/g))
          job.uses[singular(name!)] = Number(amount);
      else if (after) job.after.push(...after[1]!.match(/[A-Z]/g)!);
      else if (due) job.due = Math.min(horizon, Number(due[1]));
      else throw new Error(`a clause that a reader cannot place: ${clause}`);
    }
    for (const name of Object.keys(job.uses))
      if (capacities[name] === undefined) throw new Error(`no capacity is stated for ${name}`);
    jobs.push(job);
  }
  const starts = search(jobs, capacities);
  const form = /^<answer>.*<\/answer>$/m.exec(prompt)![0];
  return form.replace(/([A-Z]): \?/g, (_, label: string) => `${label}: ${starts.get(label)!}`);
}

/** Depth first over start times: jobs in order of their starts, earliest due first. */
function search(
  jobs: readonly ReadJob[],
  capacities: Readonly<Record<string, number>>,
): Map<string, number> {
  const starts = new Map<string, number>();
  const byLabel = new Map(jobs.map((job) => [job.label, job]));
  const end = (label: string): number => starts.get(label)! + byLabel.get(label)!.duration;
  const inUse = (name: string, time: number): number =>
    jobs.reduce(
      (sum, job) =>
        sum +
        (starts.has(job.label) && starts.get(job.label)! <= time && time < end(job.label)
          ? (job.uses[name] ?? 0)
          : 0),
      0,
    );
  const fits = (job: ReadJob, start: number): boolean =>
    Object.entries(job.uses).every(([name, amount]) => {
      for (let time = start; time < start + job.duration; time++)
        if (inUse(name, time) + amount > capacities[name]!) return false;
      return true;
    });
  const place = (from: number): boolean => {
    if (starts.size === jobs.length) return true;
    const options: { job: ReadJob; start: number }[] = [];
    for (const job of jobs) {
      if (starts.has(job.label)) continue;
      if (!job.after.every((label) => starts.has(label))) continue;
      let start = Math.max(from, ...job.after.map(end));
      while (start + job.duration <= job.due && !fits(job, start)) start++;
      if (start + job.duration > job.due) return false;
      options.push({ job, start });
    }
    options.sort((a, b) => a.start - b.start || a.job.due - b.job.due);
    for (const { job, start } of options) {
      starts.set(job.label, start);
      if (place(start)) return true;
      starts.delete(job.label);
    }
    return false;
  };
  if (!place(0)) throw new Error('what the prompt says allows no schedule');
  return starts;
}
