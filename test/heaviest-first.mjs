/**
 * Jest's order of suites: the longest first, so that no worker is left with one of them at the end;
 * the others as they come.
 */
const HEAVIEST = [
  'native/native',
  'real/inference',
  'package/docs',
  'judge/judge',
  'judge/forgeries',
  'loop/gaps',
  'cli/system-limits',
  'loop/remedies',
  'tasks/python-task',
  'loop/full-context',
  'truth-seeking/local-run',
  'loop/resumption',
  'truth-seeking/guards',
  'loop/run',
  'tasks/user-task',
  'cli/broken-input',
  'report/foreign-folder',
  'real/truth-seeking',
  'loop/kill',
  'cli/tasks',
  'loop/turns',
];

const rank = ({ path }) => {
  const at = HEAVIEST.findIndex((suite) =>
    path.split('\\').join('/').endsWith(`test/${suite}.test.ts`),
  );
  return at === -1 ? HEAVIEST.length : at;
};

export default class HeaviestFirst {
  sort(tests) {
    return [...tests].sort((a, b) => rank(a) - rank(b) || (a.path < b.path ? -1 : 1));
  }

  shard(tests) {
    return tests;
  }

  allFailedTests(tests) {
    return tests; // no record is kept of what failed
  }

  cacheResults() {}
}
