/**
 * What a setting is besides its type: how the command line spells it, under which heading its help
 * is, and whether a request may state it. zod keeps it with the schema (`.meta`), and JSON Schema
 * hands it on to the flags, to the page and to the manual.
 */
import 'zod';

/** What a request names in place of a file, an address or a program (operations/names.ts). */
export type NameKind =
  | 'model'
  | 'adapter'
  | 'task'
  | 'backend'
  | 'decider'
  | 'check'
  | 'run'
  | 'truthRun'
  | 'file'
  | 'domain'
  | 'registry';

declare module 'zod' {
  interface GlobalMeta {
    /** The flag, where it is not the setting's own name; the setting's name is an alias then. */
    flag?: string;
    /** Earlier names of a setting, which are still read: in Node, over HTTP, and as flags. */
    aliases?: readonly string[];
    /** The heading of the flag in the help and in the manual. */
    group?: string;
    /** The default in words, where the schema has none. */
    defaultText?: string;
    /** An argument of the command without a flag. */
    positional?: boolean;
    /**
     * Only where the command runs: the value is or may contain a file, an address, a program, a
     * module or an environment variable, or it concerns the terminal alone.
     */
    local?: boolean;
    /** Over HTTP it is the name of one of the server's; on this machine it is the thing itself. */
    names?: NameKind;
    /** Only a key that may do everything may state it over HTTP. */
    admin?: boolean;
    /** A page shows it before the others, in this order. */
    first?: number;
  }
}
