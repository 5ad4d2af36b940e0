/**
 * Domains of a user: what an importer made of a file, as a file of its own that a run keeps a copy
 * of.
 */
import path from 'node:path';
import { z } from 'zod';
import { writeFileAtomically } from '../../engine/atomic-file.js';
import { IsoproError } from '../../errors.js';
import { readJson, readRowText } from '../../files.js';
import { given } from '../../given.js';
import { binaryContent, openContent } from '../problem-form.js';
import { binaryProblem, openProblem, type Problem } from '../problem.js';
import type { Skipped } from '../score.js';
import { readConversations } from './conversations.js';
import type { Domain, WrittenDomain } from './domain.js';
import { readForecasts } from './forecasting.js';
import { importedDomain, importOptions } from './imported.js';
import { DOMAINS } from './index.js';
import { readDiscussions, readOpinions } from './opinions.js';
import { PEER_REVIEW_PARTS, readPeerReviews } from './peer-reviews.js';

const FORMAT = 'isopro.truth-domain.v1';
/** Ending of domain files, which distinguishes them from built-in domains. */
const ENDING = '.json';

/** Options of all importers; each importer checks its own. */
export const ownImport = importOptions.extend({
  cutoff: z.string().optional(),
  venue: z.string().optional(),
  hide: z.array(z.enum(PEER_REVIEW_PARTS)).optional(),
  share: z.number().optional(),
  language: z.string().optional(),
});
export type OwnImport = z.input<typeof ownImport>;

interface Found {
  readonly problems: readonly Problem[];
  readonly skipped: Skipped;
  readonly firstOptionShare?: number;
}

export const IMPORTERS = {
  forecasting: {
    what: '{question, options?, resolution, endTime}: forecasting questions that are settled',
    read: (text: string, { cutoff }: OwnImport): Found => {
      if (cutoff === undefined)
        throw new IsoproError(
          'INVALID_ARGUMENT',
          "cutoff: state when the model's training data ends",
        );
      return readForecasts(text, cutoff);
    },
  },
  'peer-reviews': {
    what: '{venue, title, abstract, authors?, reviews?, references?, decision}: papers, as in OpenReview',
    read: (text: string, { licence, longest, venue, hide }: OwnImport): Found =>
      readPeerReviews(text, given({ licence, longest, venue, hide })),
  },
  opinions: {
    what: '{title}: opinions to discuss, as in Change My View',
    read: (text: string, { licence, longest }: OwnImport): Found =>
      readOpinions(text, given({ licence, longest })),
  },
  discussions: {
    what: '{title, body?, replies: [{text, score}]}: opinions with replies; the best-rated reply is the reference',
    read: (text: string, { licence, longest, share }: OwnImport): Found =>
      readDiscussions(text, given({ licence, longest, share })),
  },
  conversations: {
    what: '{conversation: [{role, content}], language?, toxic?, redacted?}: questions to a chat program, as in WildChat',
    read: (text: string, { licence, longest, language }: OwnImport): Found =>
      readConversations(text, given({ licence, longest, language })),
  },
} as const;
export type ImportKind = keyof typeof IMPORTERS;
export const IMPORT_KINDS = Object.keys(IMPORTERS) as [ImportKind, ...ImportKind[]];

/** True if a domain name is a file. */
export const isOwnDomain = (name: string): boolean => name.endsWith(ENDING);

/** A file by its name, whichever system wrote its path. */
export const fileName = (file: string): string => file.split(/[/\\]/).at(-1)!;

/** Name of a domain in a run, without folders. */
export const domainId = (name: string): string => (isOwnDomain(name) ? fileName(name) : name);

export interface Importing extends Found {
  readonly domain: string;
  readonly file: string;
}

/**
 * Reads rows of one kind and writes the domain.
 * @throws IsoproError INVALID_ARGUMENT for an option or a line that is not JSON; DATA_INVALID as
 *   the importer says; FILE_UNREADABLE, WRITE_FAILED
 */
export async function importDomain(
  kind: ImportKind,
  rows: string,
  out: string,
  options: OwnImport,
): Promise<Importing> {
  if (!isOwnDomain(out))
    throw new IsoproError(
      'INVALID_ARGUMENT',
      `out: a domain file must end in ${ENDING}, got ${out}`,
    );
  const found = IMPORTERS[kind].read(readRowText(rows, 'DATA_INVALID'), options);
  const content = {
    format: FORMAT,
    kind,
    what: `${kind} of ${path.basename(rows)}`,
    licence: options.licence,
    problems: found.problems.map(({ id: _, ...problem }) => problem),
  };
  await writeFileAtomically(out, [Buffer.from(`${JSON.stringify(content, null, 1)}\n`)], 'follow');
  return { ...found, domain: domainId(out), file: out };
}

const file = z.strictObject({
  format: z.literal(FORMAT),
  kind: z.string(),
  what: z.string().max(400),
  licence: importOptions.shape.licence,
  problems: z
    .array(
      z.discriminatedUnion('kind', [
        z.strictObject({ kind: z.literal('binary'), ...binaryContent }),
        z.strictObject({ kind: z.literal('open'), ...openContent }),
      ]),
    )
    .min(1)
    .refine(
      (problems) => new Set(problems.map(({ kind }) => kind)).size === 1,
      'all problems must be of one kind',
    ),
});

const SHOWN_QUESTION = 80;

/**
 * A question once, and where answers are known, not all on one side.
 * @throws IsoproError DATA_INVALID
 */
function requireSound(name: string, problems: readonly Problem[]): void {
  const asked = new Map<string, Problem>();
  for (const problem of problems) {
    const key = problem.question.trim();
    const there = asked.get(key);
    asked.set(key, problem);
    if (there === undefined) continue;
    const answerOf = (of: Problem): string | null =>
      of.kind === 'binary' && of.correctOption !== null ? of.options[of.correctOption] : null;
    const how = answerOf(there) === answerOf(problem) ? 'twice' : 'with two answers';
    throw new IsoproError(
      'DATA_INVALID',
      `${name}: ${JSON.stringify(key.slice(0, SHOWN_QUESTION))} is asked ${how}`,
      {
        remedy:
          'Keep one of the two, or import the rows again (`truth domains FILE --import KIND`).',
      },
    );
  }
  const answers = new Set(
    problems.flatMap((each) =>
      each.kind === 'binary' && each.correctOption !== null ? [each.correctOption] : [],
    ),
  );
  if (answers.size === 1)
    throw new IsoproError(
      'DATA_INVALID',
      `${name}: every known answer is option ${[...answers][0]!}`,
      {
        remedy:
          'Swap the options of about half of the problems, so that a constant answer is not always right.',
      },
    );
}

/**
 * @throws IsoproError FILE_UNREADABLE, DATA_INVALID naming the member or the problem,
 *   PROBLEM_INVALID
 */
export function readOwnDomain(name: string): WrittenDomain {
  const found = file.safeParse(readJson(name));
  if (!found.success)
    throw new IsoproError('DATA_INVALID', `${name}: ${z.prettifyError(found.error)}`);
  const problems = found.data.problems.map((problem): Problem => {
    if (problem.kind === 'open') {
      const { kind: _, ...rest } = problem;
      return openProblem(rest as never);
    }
    const { kind: _, ...rest } = problem;
    return binaryProblem(rest as never);
  });
  requireSound(name, problems);
  return importedDomain(domainId(name), found.data.what, problems);
}

/** Domains by their names in a run: built-in ones and files. */
export class Domains {
  readonly #own: ReadonlyMap<string, WrittenDomain>;
  readonly #files: ReadonlyMap<string, string>;

  /** @param names as they are given, files among them @throws IsoproError as readOwnDomain */
  constructor(names: readonly string[] = []) {
    const files = names.filter(isOwnDomain);
    this.#files = new Map(files.map((name) => [domainId(name), name]));
    this.#own = new Map(files.map((name) => [domainId(name), readOwnDomain(name)]));
  }

  /** Files by the names that their copies have. */
  get files(): ReadonlyMap<string, string> {
    return this.#files;
  }

  /** @throws IsoproError INVALID_ARGUMENT where there is none */
  named(id: string): Domain {
    const found = this.#own.get(id) ?? DOMAINS.find((each) => each.id === id);
    if (found !== undefined) return found;
    throw new IsoproError(
      'INVALID_ARGUMENT',
      `unknown domain ${id}; expected ${DOMAINS.map((each) => each.id).join(', ')}`,
    );
  }
}
