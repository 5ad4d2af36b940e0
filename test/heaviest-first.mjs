/** Jest's order of suites: the longest first, so that no worker is left with one of them at the end; the others as they come. */
const HEAVIEST = [
  'native/native',
  'judge/judge',
  'loop/resumption',
  'loop/gaps',
  'loop/remedies',
  'loop/turns',
  'tasks/python-task',
  'loop/run',
  'package/docs',
  'tasks/user-task',
  'engine/download',
  'tasks/classic',
  'cli/broken-input',
];

const rank = ({ path }) => {
  const at = HEAVIEST.findIndex((suite) => path.split('\\').join('/').endsWith(`test/${suite}.test.ts`));
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
