/**
 * What a row of a training file says of itself: what of it is not to be learned, and which of its
 * members no form reads.
 */
type Row = Readonly<Record<string, unknown>>;

export const isObject = (value: unknown): value is Row =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Libraries of data sets write null for what a row does not have. */
export const withoutNulls = (row: Row): Row =>
  Object.fromEntries(Object.entries(row).filter(([, value]) => value !== null));

const FALSE_WORDS = new Set(['false', 'f', 'no', 'n', 'off']);
const TRUE_WORDS = new Set(['true', 't', 'yes', 'y', 'on']);

/** As JSON, tables and scripts write true and false; null for what is neither. */
function truth(value: unknown): boolean | null {
  if (typeof value === 'boolean') return value;
  const word = String(value).trim().toLowerCase();
  if (FALSE_WORDS.has(word)) return false;
  if (TRUE_WORDS.has(word)) return true;
  const number =
    typeof value === 'number' || typeof value === 'bigint'
      ? Number(value)
      : Number(word.replace(',', '.') || 'none');
  return number <= 0 ? false : number === 1 ? true : null;
}

/**
 * Says by its members that it is not to be learned: OpenAI's `weight`, axolotl's `train`. The name
 * of the one that does.
 */
export function unlearnedBy(of: unknown): 'weight' | 'train' | null {
  if (!isObject(of)) return null;
  if (of.weight !== undefined && truth(of.weight) === false) return 'weight';
  return of.train !== undefined && truth(of.train) === false ? 'train' : null;
}

/** A weight that is neither 0 nor 1; undefined: it has none, or one of these. */
export function otherWeight(of: unknown): unknown {
  const weight = isObject(of) ? (of.weight ?? null) : null;
  return weight === null || truth(weight) !== null ? undefined : weight;
}

/** KTO's, by TRL and LLaMA-Factory. */
const LABELS = ['label', 'kto_tag'] as const;

/**
 * The member that says that the answer is an example of what not to say.
 * @param isClass whether a label may also be a class, as numbers name them
 */
export const undesirableBy = (row: Row, isClass: boolean): (typeof LABELS)[number] | null =>
  LABELS.find(
    (name) =>
      row[name] !== undefined &&
      (isClass && name === 'label'
        ? /^\s*false\s*$/i.test(String(row[name]))
        : truth(row[name]) === false),
  ) ?? null;

/**
 * What a row is called and how good it is, and what a run's log says of it: nothing that a model is
 * told or says.
 */
const ABOUT = ['id', 'score', 'tier', 'verdict', 'source', ...LABELS];
const isEmpty = (value: unknown): boolean =>
  value === null ||
  value === undefined ||
  value === '' ||
  (typeof value === 'object' && Object.keys(value).length === 0);
const others = (of: Row, known: readonly string[]): string[] =>
  Object.keys(of).filter((name) => !known.includes(name) && !isEmpty(of[name]));

/** Of a row, beside those that its form reads. */
export const unreadOfRow = (row: Row, known: readonly string[]): string[] =>
  others(row, [
    ...known,
    ...ABOUT,
    ...(otherWeight(row) === undefined ? ['weight'] : []),
    ...(typeof row.train === 'boolean' ? ['train'] : []),
  ]);

const TEXT_PARTS = ['text', 'input_text', 'output_text', 'refusal'];

/**
 * Of a message, or of a turn of ShareGPT: members beside its role and content, and parts that are
 * no text.
 */
function unreadOfMessage(message: unknown): string[] {
  if (!isObject(message)) return [];
  const content = message.content;
  const parts = Array.isArray(content)
    ? content.filter(isObject).map((part) => String(part.type))
    : [];
  const known = [
    'role',
    'content',
    'from',
    'value',
    'weight',
    'train',
    'tool_call_id',
    ...(isEmpty(content) ? ['refusal'] : []),
  ];
  return [...others(message, known), ...parts.filter((type) => !TEXT_PARTS.includes(type))];
}

/** Of the messages of a list; of a text there are none. */
export const unreadOfMessages = (messages: unknown): string[] =>
  Array.isArray(messages) ? messages.flatMap(unreadOfMessage) : [];

/** Names that a note has, the commonest; a file of many other members is no list of them. */
const MOST_NAMED = 12;
const LONGEST_NAME = 60;

/** A line that says which members of rows no form reads, and how many rows have each. */
export function unreadNote(rows: Iterable<{ readonly unread?: readonly string[] }>): string[] {
  const counts = new Map<string, number>();
  for (const { unread = [] } of rows)
    for (const name of new Set(unread)) counts.set(name, (counts.get(name) ?? 0) + 1);
  const sorted = [...counts].sort(([, a], [, b]) => b - a);
  if (sorted.length === 0) return [];
  const named = sorted
    .slice(0, MOST_NAMED)
    .map(
      ([name, count]) =>
        `${name.slice(0, LONGEST_NAME)} (${count} ${count === 1 ? 'row' : 'rows'})`,
    );
  const more = sorted.length - named.length;
  return [`ignored members: ${named.join(', ')}${more > 0 ? ` and ${more} more` : ''}`];
}
