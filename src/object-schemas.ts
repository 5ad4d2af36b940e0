/**
 * Objects whose members are all named: what a client writes null for is left out, whatever its
 * name.
 */
import { z } from 'zod';

/** A member that may be left out. */
export const maybe = <Schema extends z.ZodType>(schema: Schema) =>
  schema.nullish().transform((value) => value ?? undefined);

/**
 * As `z.strictObject`, but that a member without a value, which says nothing, may have any name:
 * clients write null for members of other servers, and of the same server's next release.
 */
export function members<const Shape extends z.core.$ZodLooseShape>(
  shape: Shape,
): z.ZodObject<Shape, z.core.$strict> {
  const schema = z.looseObject(shape).check(({ value, issues }) => {
    const others = Object.keys(value).filter((key) => !Object.hasOwn(shape, key));
    for (const key of others)
      if (value[key] === null || value[key] === undefined) delete value[key];
    const keys = others.filter((key) => Object.hasOwn(value, key));
    if (keys.length > 0) issues.push({ code: 'unrecognized_keys', keys, input: value });
  });
  return schema as unknown as z.ZodObject<Shape, z.core.$strict>;
}
