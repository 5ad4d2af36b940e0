/** Questions without a short answer, each with what a good answer is weighed by. */
import { openProblem } from '../problem.js';
import type { WrittenDomain } from './domain.js';
import { tableRows } from './table-rows.js';

const QUESTIONS = tableRows<readonly [question: string, ...dimensions: string[]]>(`
What would have to be true for a map to be better the less it shows? | definitions | limits
When is it reasonable to trust an expert whose argument you cannot follow? | evidence | limits
Why do some crafts get lost although somebody wrote them down? | mechanism | alternatives
Can a group know something that none of its members knows? | definitions | mechanism
Is a forecast wrong when the unlikely thing happens? | definitions | evidence
What is the difference between an explanation and a good story? | definitions | evidence
Should a rule be followed where its reason does not apply? | values | alternatives
Why might two careful people with the same evidence disagree for good? | mechanism | evidence
How could one find out whether animals plan for the day after tomorrow? | evidence | alternatives
Does a language shape what its speakers can think? | mechanism | limits
When does measuring something spoil what is measured? | mechanism | limits
Is it possible to be unfair to somebody who will never know? | values | definitions
What makes a copy worth less than an original that looks the same? | values | alternatives
Why do large projects take longer than planned, even where people know that they do? | mechanism
  | evidence
What could an honest person never say about their own honesty? | limits | definitions
`);

export const CONCEPTUAL: WrittenDomain = {
  source: 'written',
  kind: 'open',
  id: 'conceptual',
  what: 'fifteen open questions, with the criteria for an answer',
  trainShare: 0.5,
  problems: QUESTIONS.map(([question, ...dimensions]) =>
    openProblem({ question, reference: null, about: { dimensions } }),
  ),
};
