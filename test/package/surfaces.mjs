/**
 * What a user can name: commands with their flags, routes with their members, error codes and
 * exported names, of what is built in dist/. surfaces.json has those of the start; surfaces.test.ts
 * holds that none is lost.
 */
import { readFileSync } from 'node:fs';

/** Flags and arguments that a command declares, by the command's words. */
async function commands(dist) {
  const { loadCommands } = await import(`${dist}/src/cli/commands.js`);
  const found = {};
  const walk = (before, { command, builder }) => {
    const words = [...before, String(command).split(' ')[0]];
    const names = new Set();
    const children = [];
    const take = (options) => {
      for (const [name, { alias = [] } = {}] of Object.entries(options))
        for (const each of [name, ...[alias].flat()]) names.add(each);
    };
    const methods = {
      option: (name, definition) => take(typeof name === 'string' ? { [name]: definition } : name),
      options: take,
      positional: (name) => names.add(`<${name}>`),
      command: (more) => children.push(...[more].flat()),
    };
    const recorder = new Proxy(
      {},
      {
        get:
          (_, method) =>
          (...given) => {
            methods[method]?.(...given);
            return recorder;
          },
      },
    );
    builder?.(recorder);
    found[words.join(' ')] = [...names].sort();
    for (const child of children) walk(words, child);
  };
  for (const command of await loadCommands()) walk([], command);
  return found;
}

/** Members of what a route reads, by method and path. */
function routes({ paths }) {
  const found = {};
  const members = (schema = {}) =>
    Object.keys(schema.properties ?? {}).concat(
      ...[...(schema.anyOf ?? []), ...(schema.oneOf ?? [])].map(members),
    );
  for (const [path, methods] of Object.entries(paths))
    for (const [method, { parameters = [], requestBody }] of Object.entries(methods))
      found[`${method.toUpperCase()} ${path}`] = [
        ...new Set([
          ...parameters.map(({ name }) => name),
          ...Object.values(requestBody?.content ?? {}).flatMap(({ schema }) => members(schema)),
        ]),
      ].sort();
  return found;
}

/** Names that a file of types exports. */
const exported = (file) =>
  [...readFileSync(file, 'utf8').matchAll(/export (?:type )?\{([^}]*)\}|export \* as (\w+)/g)]
    .flatMap(([, names, all]) => all ?? names.split(','))
    .map((name) =>
      name
        .trim()
        .replace(/^type /, '')
        .split(' as ')
        .at(-1),
    )
    .filter((name) => name !== '')
    .sort();

/** @param openapi what the server answers at /openapi.json */
export async function surfaces(dist, openapi) {
  const { ERRORS } = await import(`${dist}/src/errors.js`);
  const { JOB_KINDS } = await import(`${dist}/src/jobs/kinds.js`).catch(
    () => import(`${dist}/src/jobs/queue/kinds/index.js`),
  );
  const { z } = await import('zod');
  return {
    commands: await commands(dist),
    routes: routes(openapi),
    jobs: Object.fromEntries(
      JOB_KINDS.map(({ id, settings, described = settings }) => [
        id,
        Object.entries(
          z.toJSONSchema(described, { io: 'input', unrepresentable: 'any' }).properties ?? {},
        )
          .flatMap(([name, { aliases = [] }]) => [name, ...aliases])
          .sort(),
      ]),
    ),
    errors: Object.keys(ERRORS).sort(),
    exports: exported(`${dist}/src/index.d.ts`),
  };
}
