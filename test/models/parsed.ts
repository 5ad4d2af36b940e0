/**
 * JSON of any form, such as the body of an answer: a test reads of it what it is about, and what is
 * not there fails that test.
 */
// biome-ignore lint/suspicious/noExplicitAny: `unknown` would take a cast at each member read
export type Parsed = any;
