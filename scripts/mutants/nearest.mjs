/**
 * The suites that are nearest to a source: those of functions alone together, then one after the
 * other, the cheapest first.
 */
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';

/** By folder or file; the longest one that a source is in counts. */
const NEAREST = {
  'src/gate': [
    'gate/decide',
    'gate/e-process',
    'gate/rollback',
    'gate/two-sided',
    'gate/limits',
    'gate/reasons',
    'gate/campaigns',
    'registry/state',
    'registry/looks',
  ],
  'src/statistics': [
    'statistics/statistics',
    'statistics/student',
    'statistics/measures',
    'statistics/least-squares',
    'statistics/change-of-mean',
    'statistics/estimates',
    'statistics/hypergeometric',
    'statistics/regression',
    'statistics/sums',
    'gate/decide',
    'monitor/evaluate-rules',
    'report/conclusion',
    'truth-seeking/analysis',
    'truth-seeking/groups',
    'truth-seeking/vectors',
    'loop/parts',
    'report/runs',
  ],
  'src/host': [
    'host/memory-budget',
    'host/shared-values',
    'cli/chat',
    'host/requests',
    'host/sharing',
    'host/ai-sdk',
    'host/prompt-parity',
    'server/dialect',
    'server/openai',
  ],
  'src/registry': [
    'registry/courses',
    'registry/refusals',
    'registry/servers',
    'registry/state',
    'registry/looks',
    'registry/upkeep',
    'registry/registry',
    'registry/canary',
    'registry/promotion',
    'registry/service',
    'registry/serving',
    'server/registry',
    'cli/registry',
    'cli/adapters',
  ],
  'src/jobs': [
    'jobs/options',
    'log/training-data',
    'cli/train-files',
    'jobs/measured',
    'jobs/tracked',
    'loop/modes',
    'loop/controls',
    'loop/scores',
    'registry/canary',
    'registry/promotion',
    'registry/serving',
    'server/fine-tuning',
    'truth-seeking/guards',
    'training/fine-tuning',
  ],
  'src/jobs/queue': [
    'jobs/kinds',
    'jobs/store',
    'jobs/states',
    'jobs/queue',
    'server/jobs',
    'server/fine-tuning',
  ],
  'src/server': [
    'server/failures',
    'server/json-body',
    'server/keys',
    'server/metrics',
    'server/origin',
    'server/bounds',
    'server/conversation',
    'server/fair-queue',
    'server/first-issue',
    'server/slices',
    'server/turnstile',
    'server/unread',
    'server/limits',
    'server/answers',
    'server/tls',
    'server/dialect',
    'server/openai',
    'server/registry',
    'server/jobs',
    'server/page',
    'server/command',
    'server/security',
  ],
  'src/server/openai': [
    'server/call-reader',
    'server/requests',
    'server/bounds',
    'server/conversation',
    'server/first-issue',
    'server/slices',
    'server/answers',
    'server/tools',
    'server/said-back',
    'server/log-probabilities',
    'server/dialect',
    'server/openai',
    'server/clients',
    'engine/hostile-requests',
  ],
  'src/server/fine-tuning': [
    'server/requests',
    'server/fine-tuning-pages',
    'server/bounds',
    'server/first-issue',
    'server/said-back',
    'server/fine-tuning-jobs',
    'server/fine-tuning',
    'server/clients',
  ],
  'src/server/jobs': ['server/bounds', 'server/jobs', 'server/fine-tuning', 'server/command'],
  'src/server/page': [
    'server/report-tickets',
    'server/bounds',
    'server/page-views',
    'report/truth-page',
    'server/page',
    'server/registry',
    'server/ui',
  ],
  'src/training': [
    'cli/run-screen',
    'cli/setting-flags',
    'judge/run-folder',
    'judge/trainee',
    'loop/replay-buffer',
    'monitor/liveness',
    'monitor/policy',
    'monitor/session',
    'monitor/trainee',
    'tasks/failures',
    'training/checkpoints',
    'training/refusals',
    'training/settings',
    'loop/opening',
    'loop/parts',
    'loop/modes',
    'loop/full-context',
    'loop/scores',
    'loop/policy-gradient',
    'loop/distill',
    'loop/self-improve',
    'loop/run',
    'loop/turns',
    'loop/kept-replies',
    'loop/resumption',
  ],
};

/** Lists of suites that run together. @returns {(file: string) => string[][]} */
export function nearestSuites(root) {
  const { unit } = JSON.parse(readFileSync(path.join(root, 'test', 'suites.json'), 'utf8'));
  const absent = Object.values(NEAREST)
    .flat()
    .filter((suite) => !existsSync(path.join(root, 'test', `${suite}.test.ts`)));
  if (absent.length > 0) throw new Error(`there is no suite ${absent.join(', ')}`);
  return (file) => {
    const place = Object.keys(NEAREST)
      .filter((folder) => file.startsWith(`${folder}/`))
      .sort((a, b) => b.length - a.length)[0];
    const suites = NEAREST[place];
    const units = suites.filter((suite) => unit.includes(suite));
    return [
      ...(units.length > 0 ? [units] : []),
      ...suites.filter((suite) => !unit.includes(suite)).map((suite) => [suite]),
    ];
  };
}
