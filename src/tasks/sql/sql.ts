import { Random } from '../../random.js';
import { solvedExamples } from '../built-in.js';
import type { Task } from '../task.js';
import { findTier } from '../tier.js';
import { sqlExploits } from './exploits.js';
import { sqlFeedback } from './feedback.js';
import { drawProblem, TASK_ID, TIERS } from './generate.js';
import { SQL_GRAMMAR } from './grammar.js';
import { POLICIES } from './policies.js';
import type { SqlProblem, Statement } from './problem.js';
import { sqlPrompt, sqlQuestion, writtenReply } from './prompt.js';
import { QueryProcesses } from './query-processes.js';
import { parseReply, readLeniently } from './reply.js';
import { THEMES } from './themes.js';
import { verifyStatement } from './verify.js';

/** Of this thread; started by the first verdict. */
const processes = new QueryProcesses();

/** A problem for training: its theme is none of the frozen sets'. */
const generate = (tier: string, seed: bigint): SqlProblem =>
  drawProblem(findTier(TASK_ID, TIERS, tier), THEMES, new Random(seed));

/**
 * Text to SQL: a question about small tables, answered by a query that must return the right rows
 * of databases that nobody sees.
 */
export const sql: Task<SqlProblem, Statement> = {
  id: TASK_ID,
  version: '1',
  tiers: TIERS,
  // verdicts wait for a process in turn; each has a limit of its own
  limits: { verifySeconds: 600 },
  generate,
  prompt: sqlPrompt,
  parse: parseReply,
  readLeniently,
  answerGrammar: SQL_GRAMMAR,
  verify: (problem, statement, context) => verifyStatement(processes, problem, statement, context),
  feedback: (_problem, verdict) => sqlFeedback(verdict),
  oracle: async ({ query }) => query,
  fewShot: (question, style, count, seed) =>
    solvedExamples(question, count, seed, generate, (example) => [
      sqlQuestion(example),
      writtenReply(example.query, style),
    ]),
  referenceReply: ({ query }, style) => writtenReply(query, style).content,
  trivialPolicies: POLICIES,
  get exploits() {
    return sqlExploits();
  },
  dispose: async () => processes.dispose(),
};
