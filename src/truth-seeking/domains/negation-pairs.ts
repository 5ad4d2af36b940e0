/**
 * Statements with their negations, whose beliefs should sum to one, some with a paraphrase, whose
 * belief should be the same. Syllogisms among them have made-up nouns, so that nothing but the form
 * decides.
 */
import { binaryProblem, type BinaryProblem } from '../problem.js';
import type { WrittenDomain } from './domain.js';
import { tableRows } from './table-rows.js';

/**
 * A true and a false statement of which one denies the other, and the one without a “not” in other
 * words.
 */
type Pair = readonly [isTrue: string, isFalse: string, paraphrase?: string];

/** The true side holds no negation. */
const AFFIRMED = tableRows<Pair>(`
Ice floats on water. | Ice does not float on water.
  | A piece of ice stays at the surface of water.
The Moon orbits the Earth. | The Moon does not orbit the Earth.
  | The Earth is what the Moon moves around.
Seventeen is a prime number. | Seventeen is not a prime number.
  | Only one and itself divide seventeen.
Spiders have eight legs. | Spiders do not have eight legs.
  | The number of legs of a spider is eight.
Copper conducts electricity. | Copper does not conduct electricity.
  | An electric current can flow through copper.
Madrid is the capital of Spain. | Madrid is not the capital of Spain.
  | The capital of Spain is Madrid.
A square has four sides of equal length. | A square does not have four sides of equal length.
Sound travels faster in water than in air. | Sound does not travel faster in water than in air.
Bees collect nectar. | Bees do not collect nectar. | Nectar is gathered by bees.
Australia lies south of the equator. | Australia does not lie south of the equator.
Salt dissolves in water. | Salt does not dissolve in water. | Water can dissolve salt.
The heart pumps blood. | The heart does not pump blood. | Blood is pumped by the heart.
A leap year has 366 days. | A leap year does not have 366 days.
  | There are 366 days in a leap year.
Penguins lay eggs. | Penguins do not lay eggs. | A young penguin comes out of an egg.
Iron rusts in moist air. | Iron does not rust in moist air.
Jupiter is larger than Mars. | Jupiter is not larger than Mars. | Mars is smaller than Jupiter.
The square of twelve is 144. | The square of twelve is not 144. | Twelve times twelve makes 144.
Honey contains sugar. | Honey does not contain sugar.
The Nile flows through Egypt. | The Nile does not flow through Egypt.
Whales breathe air. | Whales do not breathe air. | A whale comes up because it needs air.
All dorbs are fells, and all fells are gims. It follows that all dorbs are gims.
  | All dorbs are fells, and all fells are gims. It does not follow that all dorbs are gims.
No marp is a tolk, and Ro is a marp. It follows that Ro is no tolk.
  | No marp is a tolk, and Ro is a marp. It does not follow that Ro is no tolk.
Every sarn hums, and Vi is silent. It follows that Vi is no sarn.
  | Every sarn hums, and Vi is silent. It does not follow that Vi is no sarn.
Some peffs are brin, and every brin is cold. It follows that some peffs are cold.
  | Some peffs are brin, and every brin is cold. It does not follow that some peffs are cold.
If it snurls then it glims, and it snurls. It follows that it glims.
  | If it snurls then it glims, and it snurls. It does not follow that it glims.
A triangle with three equal sides has three equal angles.
  | A triangle with three equal sides does not have three equal angles.
Half of 250 is 125. | Half of 250 is not 125. | Twice 125 is 250.
Mount Everest is higher than Mont Blanc. | Mount Everest is not higher than Mont Blanc.
  | Mont Blanc is lower than Mount Everest.
Diamonds consist of carbon. | Diamonds do not consist of carbon.
Light travels faster than sound. | Light does not travel faster than sound.
  | Sound is slower than light.
`);

/** The true side is the one that denies, so that a “not” says nothing about the label. */
const DENIED = tableRows<Pair>(`
Bats are not birds. | Bats are birds. | A bat is a kind of bird.
The Sun does not orbit the Earth. | The Sun orbits the Earth.
Twenty-one is not a prime number. | Twenty-one is a prime number.
Insects do not have eight legs. | Insects have eight legs.
Glass is not a metal. | Glass is a metal. | Among the metals there is glass.
Sydney is not the capital of Australia. | Sydney is the capital of Australia.
  | The capital of Australia is Sydney.
A triangle does not have four corners. | A triangle has four corners.
Sound does not travel through empty space. | Sound travels through empty space.
  | In empty space sounds can be heard.
Mushrooms are not plants. | Mushrooms are plants.
Norway does not lie in Africa. | Norway lies in Africa.
Oil does not sink in water. | Oil sinks in water. | Oil goes to the bottom of water.
The lungs do not digest food. | The lungs digest food.
April does not have 31 days. | April has 31 days. | There are 31 days in April.
Snakes do not have legs. | Snakes have legs. | A snake has legs.
Gold does not rust. | Gold rusts.
Venus is not farther from the Sun than Saturn. | Venus is farther from the Sun than Saturn.
  | Saturn is nearer to the Sun than Venus.
Nine times seven is not 64. | Nine times seven is 64.
Table salt does not contain iron as its main part. | Table salt contains iron as its main part.
The Amazon does not flow through France. | The Amazon flows through France.
Sharks are not mammals. | Sharks are mammals. | A shark is a kind of mammal.
All dorbs are fells. It does not follow that all fells are dorbs.
  | All dorbs are fells. It follows that all fells are dorbs.
Some marps are tolks. It does not follow that all marps are tolks.
  | Some marps are tolks. It follows that all marps are tolks.
Every sarn hums, and Vi hums. It does not follow that Vi is a sarn.
  | Every sarn hums, and Vi hums. It follows that Vi is a sarn.
Some peffs are brin, and some brin are cold. It does not follow that some peffs are cold.
  | Some peffs are brin, and some brin are cold. It follows that some peffs are cold.
If it snurls then it glims, and it does not snurl. It does not follow that it does not glim.
  | If it snurls then it glims, and it does not snurl. It follows that it does not glim.
A rectangle does not always have four equal sides. | A rectangle always has four equal sides.
A third of 90 is not 40. | A third of 90 is 40.
The Atlantic is not larger than the Pacific. | The Atlantic is larger than the Pacific.
  | The Pacific is smaller than the Atlantic.
Water does not consist of helium. | Water consists of helium.
A bicycle does not need fuel to move. | A bicycle needs fuel to move.
  | Without fuel a bicycle cannot move.
`);

const statement = (
  words: string,
  isTrue: boolean,
  group: string,
  role: 'statement' | 'negation' | 'paraphrase',
): BinaryProblem =>
  binaryProblem({
    question: `Is this statement true or false? ${words}`,
    options: ['True', 'False'],
    correctOption: isTrue ? 0 : 1,
    group,
    about: { role },
  });

/** @param affirms whether the statement, as opposed to its negation, is the true one */
const together = (pairs: readonly Pair[], affirms: boolean): BinaryProblem[] =>
  pairs.flatMap(([right, wrong, paraphrase], i) => {
    const group = `${affirms ? 'affirmed' : 'denied'} ${i + 1}`;
    return [
      statement(affirms ? right : wrong, affirms, group, 'statement'),
      statement(affirms ? wrong : right, !affirms, group, 'negation'),
      ...(paraphrase === undefined ? [] : [statement(paraphrase, affirms, group, 'paraphrase')]),
    ];
  });

export const NEGATION_PAIRS: WrittenDomain = {
  source: 'written',
  kind: 'binary',
  id: 'negation-pairs',
  what: 'sixty statements with their negations, some with a paraphrase',
  trainShare: 0.5,
  problems: [...together(AFFIRMED, true), ...together(DENIED, false)],
};
