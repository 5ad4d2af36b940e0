/** Members of options that were given, for whoever takes them under the same names. */
export const given = <Options extends object, Name extends keyof Options>(
  options: Options,
  ...names: readonly Name[]
): { readonly [N in Name]?: Exclude<Options[N], undefined> } =>
  Object.fromEntries(
    names.flatMap((name) => (options[name] === undefined ? [] : [[name, options[name]]])),
  ) as { [N in Name]?: Exclude<Options[N], undefined> };
