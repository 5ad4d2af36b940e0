/**
 * Section on how to use the adapter of a run, as commands to copy. Paths are relative to the run
 * folder, so the page reveals no other path.
 */
import {
  adaptedName,
  modelfile,
  OLLAMA_TEMPLATE,
  ollamaCommands,
  serverCommands,
} from '../engine/adapter-commands.js';
import { EMBEDDED_MODEL, MODEL_ALIASES } from '../engine/model-aliases.js';
import type { RunRecord } from '../run-folder/read-run.js';
import { shellWord } from '../shell-word.js';
import { shortcoming } from '../text/conclusion.js';
import { html, label, type Html } from '../text/hostile-text.js';
import { section, type Section } from './markup.js';
import { trainedBehind } from '../run-folder/training-prompt.js';

const MODEL_FILE = 'MODEL.gguf';

/**
 * Model name as the package takes it. A path is only valid where the run was started, so the
 * placeholder replaces it.
 */
const modelName = (name: string): string =>
  name === EMBEDDED_MODEL || Object.hasOwn(MODEL_ALIASES, name) || /^(hf|https?):/.test(name)
    ? name
    : MODEL_FILE;

const copyable = (id: string, text: string): Html =>
  html`<pre class="copyable" data-use="${id}">${text}</pre>`;

export function useSection(run: RunRecord): Section | null {
  const { manifest, submission } = run;
  if (run.end === null || submission?.adapter == null || !/^[0-9a-f]{64}$/.test(submission.adapter))
    return null;
  const lacking = shortcoming(run);
  if (lacking !== null)
    return section(
      'use',
      'Using the adapter',
      html`<p class="fair">${lacking}, so there is nothing to use.</p>`,
    );
  const { model, task, evaluation } = manifest.start;
  const adapter = `adapters/${submission.adapter}.gguf`;
  const [name, { maxTokens }] = [modelName(model.name), evaluation];
  const base = name === EMBEDDED_MODEL ? '' : ` --model ${shellWord(name)}`;
  const behind = trainedBehind(manifest.start);
  const withTask =
    behind === null ? '' : ` --task ${task.file === null ? shellWord(task.id) : 'TASK'}`;
  return section(
    'use',
    'Using the adapter',
    html`<p class="note muted">Run these commands in the run folder. Replace ${MODEL_FILE} with the file of the base model, SHA-256
${model.sha256.slice(0, 16)}…; <code>npx isopro-native models list</code> shows where the cache is.
<code>npx isopro-native adapters use . --for PROGRAM</code> prints the same with all paths, also for LM Studio and transformers.</p>
<p class="note muted">The results are for prompts of ${label(task.id, 60)} as this package renders them.
They say nothing about other prompts
or other programs.</p>`,
    behind === null
      ? null
      : html`<p class="fair">In training, ${behind} came before every question, and the adapter needs the same text:
<code>--task</code> adds it
here${task.file === null ? '' : html`, where TASK is the file of ${label(task.id, 60)}`}, and <code>npx isopro-native adapters use .
--for PROGRAM${withTask}</code> prints it for other programs. The code below for Node, llama-server and Ollama does not contain it.</p>`,
    html`<h3>This package</h3>`,
    copyable(
      'cli',
      `npx isopro-native generate${base} --adapter .${withTask} --max-tokens ${maxTokens} --prompt "..."`,
    ),
    html`<h3>Node</h3>`,
    copyable(
      'node',
      `import { loadModel } from 'isopro-native';

const model = await loadModel(${JSON.stringify(name)});
const adapter = await model.loadAdapter(${JSON.stringify(adapter)});
for await (const { text } of model.generate({ prompts: ["..."], adapter, maxTokens: ${maxTokens} })) console.log(text);
await model.dispose();
`,
    ),
    html`<h3>llama-server</h3>`,
    copyable('llama-server', serverCommands(MODEL_FILE, adapter).join('\n')),
    html`<h3>Ollama</h3>
<p class="note muted">A file <code>Modelfile</code> in the run folder, and two commands.
${OLLAMA_TEMPLATE.split('`').map((part, i) => (i % 2 === 1 ? html`<code>${part}</code>` : part))}</p>`,
    copyable('modelfile', modelfile(`./${MODEL_FILE}`, `./${adapter}`)),
    copyable(
      'ollama',
      ollamaCommands(adaptedName(MODEL_FILE, submission.adapter), 'Modelfile').join('\n'),
    ),
  );
}
