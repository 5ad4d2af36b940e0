/**
 * What a finished run kept to learn from, iteration by iteration: the replay buffer's composition
 * by tier, as bars. Nobody ordered the tiers; what the verifier let through did.
 *   npm run build:ts && node dist/examples/watch-curriculum.js runs/3f2a
 */
import { readRun } from 'isopro-native';

const [folder] = process.argv.slice(2);
if (folder === undefined) {
  process.stderr.write('usage: node dist/examples/watch-curriculum.js RUN_FOLDER\n');
  process.exit(2);
}

const { iterations, tiers } = readRun(folder);
const kept = tiers
  .map(({ id }) => id)
  .filter((id) => iterations.some(({ buffer }) => (buffer[id] ?? 0) > 0));
const largest = Math.max(
  1,
  ...iterations.map(({ buffer }) => Object.values(buffer).reduce((sum, count) => sum + count, 0)),
);
const width = Math.max(20, Math.min(100, process.stdout.columns ?? 80) - 24);
const shades = ['█', '▓', '▒', '░', '▚', '▞', '▤', '▥'];
const shade = (tier: string): string => shades[kept.indexOf(tier) % shades.length]!;

if (kept.length === 0) process.stdout.write('No rollout was accepted in this run.\n');
else
  process.stdout.write(
    `accepted rollouts in the buffer: ${kept.map((tier) => `${shade(tier)} ${tier}`).join('  ')}\n\n`,
  );
for (const { iteration, buffer } of kept.length === 0 ? [] : iterations) {
  const total = kept.reduce((sum, tier) => sum + (buffer[tier] ?? 0), 0);
  // ends rounded, not lengths, so that a bar is as long as its sum says
  let [sum, bar] = [0, ''];
  for (const tier of kept) {
    sum += buffer[tier] ?? 0;
    bar += shade(tier).repeat(Math.round((width * sum) / largest) - bar.length);
  }
  process.stdout.write(
    `iteration ${String(iteration).padStart(3)} ${String(total).padStart(6)} ${bar}\n`,
  );
}
