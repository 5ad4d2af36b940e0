/** Members that were given: required ones as they are, optional ones without `undefined`. */
export type Given<Options extends object, Name extends keyof Options = keyof Options> = {
  readonly [N in Name as undefined extends Options[N] ? never : N]: Options[N];
} & {
  readonly [N in Name as undefined extends Options[N] ? N : never]?: Exclude<Options[N], undefined>;
};

/**
 * Members of options that were given, for whoever takes them under the same names.
 * @param names of the members; default: all
 */
export const given = <Options extends object, Name extends keyof Options = keyof Options>(
  options: Options,
  ...names: readonly Name[]
): Given<Options, Name> => {
  const chosen: readonly (keyof Options)[] =
    names.length > 0 ? names : (Object.keys(options) as (keyof Options)[]);
  return Object.fromEntries(
    chosen.flatMap((name) => (options[name] === undefined ? [] : [[name, options[name]]])),
  ) as Given<Options, Name>;
};
