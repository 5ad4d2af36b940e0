// `npm run docs:commands`: writes the flags in docs/commands/*.md from the commands themselves (as
// built in dist/).
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const FLAGS = /<!-- flags -->\n[^]*?<!-- \/flags -->/;
const nameOf = ({ command }) => String(command).split(' ')[0];

/** What a command's builder declares, without yargs: its arguments, flags and subcommands. */
function declared({ builder }) {
  const found = { positional: {}, option: {}, command: [] };
  const methods = {
    option: (name, definition) =>
      Object.assign(found.option, typeof name === 'string' ? { [name]: definition } : name),
    options: (definitions) => Object.assign(found.option, definitions),
    positional: (name, definition) => Object.assign(found.positional, { [name]: definition }),
    command: (commands) => found.command.push(...[commands].flat()),
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
  builder(recorder);
  return found;
}

const cell = (text) => String(text).replaceAll('|', '\\|').replaceAll('<', '&lt;');

/** `--layers TEXT`, `--count N`, `--stop TEXT …`; a switch is its name alone. */
function flag(name, { type, choices, array, default: value, defaultDescription }) {
  if (type === 'boolean' && (value === true || defaultDescription === 'true'))
    return `\`--[no-]${name}\``;
  const word = choices === undefined && type === 'boolean' ? '' : type === 'number' ? 'N' : 'TEXT';
  return `\`--${name}${word === '' ? '' : ` ${word}`}${array === true ? ' …' : ''}\``;
}

function fallback({ demandOption, defaultDescription, default: value, type }) {
  if (demandOption === true) return 'required';
  if (defaultDescription !== undefined)
    return defaultDescription.length > 100
      ? `\`${cell(defaultDescription)}\`` // a prompt
      : cell(defaultDescription);
  if (value === undefined || (type === 'boolean' && value === false)) return '';
  if (/[a-z] [a-z]/.test(value)) return `\`${cell(value)}\``; // words that a model reads
  return cell(Array.isArray(value) ? value.join(' ') : value);
}

const meaning = ({ describe, choices, alias }) => {
  const others = [alias ?? []].flat().filter((name) => name.length > 1);
  const also = others.map((name) => `\`--${name}\``).join(', ');
  return cell(
    `${choices === undefined ? describe : `${describe} (${choices.join(', ')})`}${also === '' ? '' : `; also ${also}`}`,
  );
};

const optionTable = (rows) =>
  rows.length === 0
    ? []
    : [
        '| flag | default | |',
        '|---|---|---|',
        ...rows.map(
          ([key, definition]) =>
            `| ${flag(key, definition)} | ${fallback(definition)} | ${meaning(definition)} |`,
        ),
      ];

/** Flags with a group are the settings of `run`: its own page has them, a table a group. */
function tableOf(name, { positional, option }) {
  const rows = Object.entries(option).filter(([, { group }]) => group === undefined);
  const settings = Object.entries(option).filter(([, { group }]) => group !== undefined);
  const groups = [...new Set(settings.map(([, { group }]) => group))];
  return [
    ...Object.entries(positional).map(
      ([argument, { describe }]) => `- \`${argument}\`: ${cell(describe)}`,
    ),
    ...(Object.keys(positional).length > 0 && rows.length > 0 ? [''] : []),
    ...optionTable(rows),
    ...(settings.length === 0
      ? []
      : name === 'run'
        ? groups.flatMap((group) => [
            '',
            `### ${group.replace(/:$/, '')}`,
            '',
            ...optionTable(settings.filter(([, definition]) => definition.group === group)),
          ])
        : ['', 'All settings of [`run`](run.md#flags) are flags here too, the seed aside.']),
  ];
}

/** The part of a command's page that follows from its flags. */
export function flagsOf(command) {
  const own = declared(command);
  const sections = [
    tableOf(nameOf(command), own),
    ...own.command.map((child) => [
      `### \`${nameOf(command)} ${child.command}\``,
      '',
      `${child.describe}.`,
      '',
      ...tableOf(nameOf(child), declared(child)),
    ]),
  ];
  const lines = sections
    .filter((section) => section.length > 0)
    .flatMap((section) => [...section, '']);
  return [
    '<!-- flags -->',
    'Written by `npm run docs:commands`, like `--help`, from the same source. ' +
      'Two flags go with every command: `--json` (machine-readable output on stdout, progress on stderr) ' +
      'and `--pass-env NAME` ([hands a variable](../backends.md#keys) to tasks and other programs).',
    '',
    ...lines,
    '<!-- /flags -->',
  ]
    .join('\n')
    .replace(/\n{3,}/g, '\n\n');
}

/** A page with its flags as they are now. */
export function pageOf(page, command) {
  if (!FLAGS.test(page))
    throw new Error("a command's page needs the markers <!-- flags --> and <!-- /flags -->");
  return page.replace(FLAGS, () => flagsOf(command));
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { loadCommands } = await import('../dist/src/cli/commands.js');
  const folder = path.join(
    path.dirname(path.dirname(fileURLToPath(import.meta.url))),
    'docs',
    'commands',
  );
  const pages = readdirSync(folder);
  for (const command of await loadCommands()) {
    const file = `${nameOf(command)}.md`;
    if (!pages.includes(file)) throw new Error(`docs/commands/${file} is missing`);
    writeFileSync(
      path.join(folder, file),
      pageOf(readFileSync(path.join(folder, file), 'utf8'), command),
    );
  }
}
