/** The chat template of a model file, run by @huggingface/jinja. It is code from a file, and may be one that does not end. */
import vm from 'node:vm';
import { Environment, Interpreter, Template } from '@huggingface/jinja';

/**
 * The library offers templates the clock under this name; without it they fall back to a fixed date. The empty
 * expression keeps a line break at the beginning of the template from being trimmed as one after a statement.
 */
const NO_CLOCK = "{% set strftime_now = undefined %}{{ '' }}";

/** No template runs longer than this, by the clock. Rendering takes milliseconds; a busy machine may stop a process for seconds. */
const LIMIT_MS = 10_000;

/** Texts that are made under one watch of the clock. Each of those of a group that does not end in time has its own then. */
const TOGETHER = 64;

/**
 * What a template may cost without a watch: some ten milliseconds, about a hundred at the most. A node is an evaluation of one, whether it
 * ends or throws; members of lists and characters of texts are counted at each, those of what is shared as often as it is met, so that
 * neither many small steps nor a few on what doubles stay below it.
 */
const FREE_COST = 10_000_000;
const NODE_COST = 300;
const THROWN_COST = 5000;
const MEMBER_COST = 16;

/** Where templates are watched, since only there the clock can stop them. One for all: making it takes longer than most templates. */
const sandbox: { render?: () => string[] } = vm.createContext({});
const RENDER = new vm.Script('render()');

interface Evaluated {
  readonly value: unknown;
}
interface Globals {
  set(name: string, value: unknown): unknown;
}
/** What the package's types, which name their own files without an extension, do not tell. */
const LibraryInterpreter = Interpreter as unknown as new (
  globals: Globals,
) => {
  evaluate(statement: unknown, environment: unknown): Evaluated;
  run(program: unknown): Evaluated;
};

/** The library's interpreter, as far as a template costs little. It counts and looks at no clock, which a busy machine would stop. */
class Metered extends LibraryInterpreter {
  #left = FREE_COST;

  override evaluate(statement: unknown, environment: unknown): Evaluated {
    this.#charge(NODE_COST);
    try {
      const evaluated = super.evaluate(statement, environment);
      this.#chargeFor(evaluated);
      return evaluated;
    } catch (error) {
      this.#charge(THROWN_COST); // steps of a loop that are cut short are thrown, and caught by the loop
      throw error;
    }
  }

  #charge(cost: number): void {
    this.#left -= cost;
    if (this.#left < 0) throw new Error('not by itself');
  }

  /** All that a text of it would hold: the walk itself ends with what is left. */
  #chargeFor({ value }: Evaluated): void {
    if (typeof value === 'string') this.#charge(value.length);
    if (Array.isArray(value)) for (const member of value as Evaluated[]) this.#chargeMember(member);
    if (value instanceof Map) for (const member of (value as Map<string, Evaluated>).values()) this.#chargeMember(member);
  }

  #chargeMember(member: Evaluated): void {
    this.#charge(MEMBER_COST);
    this.#chargeFor(member);
  }
}

/** As Template.render has them, but for what makes a list of any length at once. */
function globals(): Globals {
  const environment = new Environment() as unknown as Globals;
  for (const [name, value] of Object.entries({ false: false, true: true, none: null, False: false, True: true, None: null }))
    environment.set(name, value);
  for (const name of ['range', 'raise_exception'])
    environment.set(name, () => {
      throw new Error('not by itself');
    });
  return environment;
}

export class ChatTemplate {
  readonly #template: Template;

  /** @throws Error where it is no template */
  constructor(text: string) {
    this.#template = new Template(NO_CLOCK + text);
  }

  /** One text each. @throws Error as the template, or where one does not end */
  render(all: readonly Readonly<Record<string, unknown>>[]): string[] {
    const texts = all.map((variables) => this.#renderFreely(variables));
    const missing = [...texts.keys()].filter((i) => texts[i] === undefined);
    for (let at = 0; at < missing.length; at += TOGETHER) {
      const group = missing.slice(at, at + TOGETHER);
      const watched = this.#renderWatched(group.map((i) => all[i]!));
      for (const [k, i] of group.entries()) texts[i] = watched[k];
    }
    return texts as string[];
  }

  /**
   * Without the watch, whose thread is started and waited for: that holds the event loop up for a millisecond, and for tens where the
   * processors are busy. Whatever goes wrong is for the watched one to say.
   */
  #renderFreely(variables: Readonly<Record<string, unknown>>): string | undefined {
    try {
      const environment = globals();
      for (const [name, value] of Object.entries(variables)) environment.set(name, value);
      return String(new Metered(environment).run((this.#template as unknown as { readonly parsed: unknown }).parsed).value);
    } catch {
      return undefined;
    }
  }

  #renderWatched(group: readonly Readonly<Record<string, unknown>>[]): string[] {
    try {
      sandbox.render = () => group.map((variables) => String(this.#template.render({ ...variables })));
      return RENDER.runInContext(sandbox, { timeout: LIMIT_MS }) as string[];
    } catch (cause) {
      if (group.length > 1) return group.flatMap((variables) => this.#renderWatched([variables]));
      throw cause;
    } finally {
      delete sandbox.render;
    }
  }
}
