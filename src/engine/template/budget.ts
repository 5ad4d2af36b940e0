/**
 * What a rendering may cost. A template is code from a file, and what it may take is counted, not
 * timed: the same template and conversation end the same on every machine, and there is no clock to
 * wait for.
 */
import { TemplateLimit } from './failures.js';

/**
 * Evaluations of a node, and members and characters that are gone through. Some hundred million a
 * second.
 */
const STEPS = 20_000_000;
const STEPS_A_CHARACTER = 50;
/**
 * Bytes that are made, whether they are let go or not. The greatest conversation that a server
 * takes has some megabytes.
 */
const BYTES = 128 * 2 ** 20;
const BYTES_A_CHARACTER = 64;
/** Calls within calls, and nodes within nodes. */
const DEEPEST = 1500;

const STEPS_OF_A_NODE = 4;
const CHARACTERS_A_STEP = 8;
const BYTES_OF_A_MEMBER = 32;

export class Budget {
  #steps: number;
  #bytes: number;
  #depth = 0;

  /** @param characters of what is rendered: messages and variables */
  constructor(characters: number) {
    this.#steps = STEPS + STEPS_A_CHARACTER * characters;
    this.#bytes = BYTES + BYTES_A_CHARACTER * characters;
  }

  steps(count: number): void {
    this.#steps -= count;
    if (this.#steps < 0) throw new TemplateLimit('it takes more steps than any conversation needs');
  }

  /** Members of a list or a dict that is made. */
  members(count: number): void {
    this.steps(count);
    this.#make(BYTES_OF_A_MEMBER * count);
  }

  /** A text that is made. */
  text(characters: number): void {
    this.steps(characters / CHARACTERS_A_STEP);
    this.#make(2 * characters);
  }

  /** A text that is read through, of which nothing is made. */
  read(characters: number): void {
    this.steps(characters / CHARACTERS_A_STEP);
  }

  /** A text in which another one is sought. What repeats itself is compared over and over. */
  search(text: string, sought: string): void {
    this.steps((text.length / CHARACTERS_A_STEP) * (1 + sought.length / 16));
  }

  /**
   * One text of two. The longer one is shared, not copied, so that a template may gather its output
   * piece by piece; what doubles is counted by what it adds.
   */
  joined(left: string, right: string): string {
    this.text(Math.min(left.length, right.length));
    if (left.length + right.length > MOST_CHARACTERS)
      throw new TemplateLimit(`it creates a string of more than ${MOST_CHARACTERS} characters`);
    return left + right;
  }

  enter(): void {
    this.steps(STEPS_OF_A_NODE);
    if (++this.#depth > DEEPEST)
      throw new TemplateLimit(`its calls or nesting are more than ${DEEPEST} levels deep`);
  }

  leave(): void {
    this.#depth--;
  }

  #make(bytes: number): void {
    this.#bytes -= bytes;
    if (this.#bytes < 0)
      throw new TemplateLimit('it takes more memory than any conversation needs');
  }
}

/** Below what V8 holds in one text (2^29 - 24). */
const MOST_CHARACTERS = 2 ** 28;
