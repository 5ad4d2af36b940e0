/** Puzzles with an obvious answer that is wrong and a calculated answer that is right. */
import { binaryProblem } from '../problem.js';
import type { WrittenDomain } from './domain.js';
import { tableRows } from './table-rows.js';

type Puzzle = readonly [question: string, right: string, easy: string];

const PUZZLES = tableRows<Puzzle>(`
A pen and a ruler cost 2.20 together. The ruler costs 2.00 more than the pen. What does the pen
  cost? | 0.10 | 0.20
Four ovens bake four loaves in forty minutes. How long do eight ovens need for eight loaves?
  | 40 minutes | 80 minutes
Duckweed covers twice as much of a lake each day and all of it on day 30. On which day did it
  cover half? | Day 29 | Day 15
A price falls by 20 per cent and then rises by 20 per cent. How does it stand to the first price?
  | Below it | The same
You drive to a town at 30 km/h and back the same way at 60 km/h. What is your average speed?
  | 40 km/h | 45 km/h
In a race you overtake the runner in second place. In which place are you now? | Second | First
A farmer had 19 goats, and all but 8 ran away. How many has she left? | 8 | 11
How many cuts divide a rod into six pieces, one piece off at each cut? | 5 | 6
A clock takes 6 seconds from the first to the last stroke at four. How long does it take at eight?
  | 14 seconds | 12 seconds
A snail climbs 3 metres by day and slips 2 by night in a well of 10 metres. On which day is it
  out? | Day 8 | Day 10
How many posts does a straight fence of 50 metres need, one every 5 metres and one at each end?
  | 11 | 10
A fair coin fell on heads five times. What is the chance of heads at the next toss? | One half
  | Less than one half
Each side of a square becomes three times as long. How many times as large is its area? | 9 | 3
A cube has edges twice as long as another of the same stuff. How many times as heavy is it? | 8
  | 4
Two children share 12 nuts so that one gets 4 more than the other. How many does the other get?
  | 4 | 8
A drawer holds many black and many white socks. How many must you take in the dark to be sure of a
  pair? | 3 | 2
Half of a number is 5 more than a third of it. What is the number? | 30 | 10
A woman has three daughters, and each of them has one brother. How many children has she at least?
  | 4 | 6
How many times do the digits of 1 to 20, written out in a row, show a 1? | 12 | 11
What is 30 divided by one half? | 60 | 15
Eight teams play until one is left, each game sending one team home. How many games is that? | 7
  | 8
A sheet is folded in half four times. Of how many layers is it then? | 16 | 8
An illness strikes 1 in 1000. A test finds every case and is wrong on 1 healthy person in 100. The
  test says that you have it. How likely is that? | About 9 per cent | About 99 per cent
Two dice are thrown. Which sum is more likely, 7 or 8? | 7 | Both the same
Of all families with two children of whom at least one is a girl, which part has two girls?
  | One third | One half
Three friends each shake hands once with each of the others and with a fourth. How many handshakes
  in all? | 6 | 12
A shop takes 50 per cent off and then 50 per cent off the rest. How much of the price is left?
  | A quarter | Nothing
Fresh berries of 10 kg are 99 per cent water. They dry until they are 98 per cent water. What do
  they weigh? | 5 kg | 9.9 kg
The average of five numbers is 10. A sixth number, 22, joins them. What is the average now? | 12
  | 16
A train of 200 metres passes through a tunnel of 800 metres at 20 metres a second. How long from
  its first part in to its last part out? | 50 seconds | 40 seconds
`);

export const PUZZLES_WITH_AN_EASY_ANSWER: WrittenDomain = {
  source: 'written',
  kind: 'binary',
  id: 'puzzles',
  what: 'thirty puzzles with an easy wrong answer and a hard right one',
  trainShare: 0.5,
  // Every other puzzle has its right answer first, so that the place says nothing.
  problems: PUZZLES.map(([question, right, easy], i) =>
    binaryProblem({
      question,
      options: i % 2 === 0 ? [right, easy] : [easy, right],
      correctOption: i % 2 === 0 ? 0 : 1,
      about: { easy },
    }),
  ),
};
