/**
 * Form of a JSON Schema. A field that is left at its default is not sent, so that it follows later
 * defaults.
 */
import type { JSX } from 'preact';
import { useId, useState } from 'preact/hooks';
import type { Schema } from './job-api.ts';

export type Values = Readonly<Record<string, unknown>>;

const isObject = (value: unknown): value is Values =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/**
 * Returns the values with one member changed, or without it if the value is undefined. An object
 * that becomes empty is removed.
 */
export function withValue(
  values: Values,
  [name, ...rest]: readonly string[],
  value: unknown,
): Values {
  const { [name!]: before, ...others } = values;
  const inner = rest.length === 0 ? value : withValue(isObject(before) ? before : {}, rest, value);
  const gone =
    inner === undefined || (rest.length > 0 && isObject(inner) && Object.keys(inner).length === 0);
  return gone ? others : { ...others, [name!]: inner };
}

export const valueAt = (values: unknown, path: readonly string[]): unknown =>
  path.reduce<unknown>((at, name) => (isObject(at) ? at[name] : undefined), values);

/** Reduces alternatives to the one to show: a field that may be null is shown as its other type. */
function plain(schema: Schema): Schema {
  const several = schema.anyOf ?? schema.oneOf;
  if (several === undefined) return schema;
  const constants = several.filter((each) => each.const !== undefined || each.enum !== undefined);
  if (constants.length === several.length)
    return { ...schema, enum: several.flatMap((each) => each.enum ?? [each.const]) };
  const told = several.filter(({ type }) => type !== 'null');
  const [first, ...more] = told.map(plain);
  return more.length === 0 && first !== undefined
    ? { ...first, description: schema.description ?? first.description, default: schema.default }
    : { ...schema, type: 'json' };
}

/** `batchSize` as `batch size`. */
export const words = (name: string): string =>
  name.replace(/([a-z0-9])([A-Z])/g, '$1 $2').toLowerCase();

const BOOLEANS = [
  [true, 'yes'],
  [false, 'no'],
] as const;

interface FieldProps {
  readonly name: string;
  readonly schema: Schema;
  /** Names to choose from; undefined: any value. */
  readonly choices: readonly string[] | undefined;
  readonly value: unknown;
  readonly required: boolean;
  readonly onChange: (value: unknown) => void;
}

const shown = (value: unknown): string =>
  value === undefined || value === null
    ? ''
    : typeof value === 'string'
      ? value
      : JSON.stringify(value);

export function Field({
  name,
  schema: given,
  choices,
  value,
  required,
  onChange,
}: FieldProps): JSX.Element {
  const id = useId();
  const schema = plain(given);
  const [text, setText] = useState(() => shown(value));
  const [fault, setFault] = useState(false);
  const type = Array.isArray(schema.type)
    ? (schema.type.find((each) => each !== 'null') ?? 'json')
    : (schema.type ?? 'string');
  const told = schema.default === undefined || schema.default === null ? '' : shown(schema.default);
  const said = `${id}-said`;
  const common = {
    id,
    'aria-describedby':
      schema.description === undefined || choices !== undefined ? undefined : said,
  };
  const options: readonly (readonly [value: unknown, text: string])[] | undefined =
    choices?.map((each) => [each, each] as const) ??
    schema.enum?.map((each) => [each, shown(each)] as const) ??
    (type === 'boolean' ? BOOLEANS : undefined);
  let control: JSX.Element;
  if (options !== undefined) {
    const usual = options.find(([each]) => each === schema.default)?.[1] ?? told;
    const of = (text: string): unknown => options.find(([each]) => shown(each) === text)?.[0];
    control = (
      <select
        {...common}
        required={required}
        value={shown(value)}
        onChange={({ currentTarget: { value: picked } }) =>
          onChange(picked === '' ? undefined : of(picked))
        }
      >
        {(!required || value === undefined) && (
          <option value="">
            {usual === '' ? (required ? 'choose' : 'default') : `${usual} (default)`}
          </option>
        )}
        {options.map(([each, text]) => (
          <option key={text} value={shown(each)}>
            {text}
          </option>
        ))}
      </select>
    );
  } else {
    const numeric = type === 'integer' || type === 'number';
    const change = (next: string): void => {
      setText(next);
      try {
        if (next.trim() === '') onChange(undefined);
        else if (type === 'string') onChange(next);
        else onChange(numeric ? Number(next) : JSON.parse(next));
        setFault(false);
      } catch {
        setFault(true);
      }
    };
    const typed = {
      ...common,
      required,
      placeholder: told,
      value: text,
      'aria-invalid': fault,
      onInput: ({ currentTarget }: { readonly currentTarget: HTMLInputElement }) =>
        change(currentTarget.value),
    };
    const most = Math.abs(schema.maximum ?? Infinity) < 1e15 ? schema.maximum : undefined;
    control = numeric ? (
      <input
        {...typed}
        type="number"
        step={type === 'integer' ? 1 : 'any'}
        min={schema.minimum}
        max={most}
      />
    ) : (
      <input {...typed} />
    );
  }
  return (
    <div class="field">
      <label for={id}>{schema.title ?? words(name)}</label>
      {control}
      {schema.description !== undefined && choices === undefined && (
        <small id={said}>
          {schema.description}
          {type === 'json' || type === 'array' ? ' (JSON)' : ''}
        </small>
      )}
    </div>
  );
}

export interface FormProps {
  readonly schema: Schema;
  readonly values: Values;
  /** Settings with the defaults of the chosen model; undefined until the server has sent them. */
  readonly resolved: unknown;
  /** Names to choose from, by the path of the field. */
  readonly choicesOf: (path: readonly string[]) => readonly string[] | undefined;
  /** Paths of the fields that come first, such as `sampling.rollouts`. */
  readonly first: readonly string[];
  readonly onChange: (values: Values) => void;
}

export const schemaAt = (schema: Schema, path: readonly string[]): Schema | undefined =>
  path.reduce<Schema | undefined>((at, name) => at?.properties?.[name], schema);

/** Adds a default that depends on the profile of the model, which the schema does not know. */
const withDefault = (schema: Schema, value: unknown): Schema =>
  typeof value === 'number' || typeof value === 'boolean' ? { ...schema, default: value } : schema;

export function SchemaForm({
  schema,
  values,
  resolved,
  choicesOf,
  first,
  onChange,
}: FormProps): JSX.Element {
  const leading = first
    .map((path) => path.split('.'))
    .filter((path) => schemaAt(schema, path) !== undefined);
  const isLeading = (path: readonly string[]): boolean =>
    leading.some((each) => each.join('.') === path.join('.'));
  const field = (path: readonly string[], of: Schema, required: boolean): JSX.Element => (
    <Field
      key={path.join('.')}
      name={path.length === 2 && path[1] === 'name' ? path[0]! : path.at(-1)!}
      schema={withDefault(
        of,
        valueAt(values, path) === undefined ? valueAt(resolved, path) : undefined,
      )}
      choices={choicesOf(path)}
      value={valueAt(values, path)}
      required={required}
      onChange={(value) => onChange(withValue(values, path, value))}
    />
  );
  const entries = Object.entries(schema.properties ?? {});
  const needs = (name: string): boolean => schema.required?.includes(name) === true;
  const simple = entries.filter(([name, of]) => of.properties === undefined && !isLeading([name]));
  const parts = entries.filter(([, of]) => of.properties !== undefined);
  const group = (
    title: string,
    fields: readonly JSX.Element[],
    changed: number,
  ): JSX.Element | null =>
    fields.length === 0 ? null : (
      <details class="group" key={title}>
        <summary>
          {title} <small>{changed > 0 ? `${changed} changed` : `${fields.length}`}</small>
        </summary>
        <div class="fields">{fields}</div>
      </details>
    );
  const count = (paths: readonly (readonly string[])[]): number =>
    paths.filter((path) => valueAt(values, path) !== undefined).length;
  const required = simple.filter(([name, of]) => needs(name) && of.default === undefined);
  const optional = simple.filter((each) => !required.includes(each));
  return (
    <>
      <div class="fields">
        {leading.map((path) =>
          field(
            path,
            schemaAt(schema, path)!,
            path.length === 1 && needs(path[0]!) && schemaAt(schema, path)!.default === undefined,
          ),
        )}
        {required.map(([name, of]) => field([name], of, true))}
      </div>
      {parts.map(([name, of]) => {
        const inner = Object.entries(of.properties!).filter(
          ([member]) => !isLeading([name, member]),
        );
        return group(
          words(name),
          inner.map(([member, form]) => field([name, member], form, false)),
          count(inner.map(([member]) => [name, member])),
        );
      })}
      {group(
        'further',
        optional.map(([name, of]) => field([name], of, false)),
        count(optional.map(([name]) => [name])),
      )}
    </>
  );
}
