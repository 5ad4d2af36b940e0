/**
 * Words of the ladder's problems. Those of the frozen sets are never trained on; those of the
 * worked examples stand in no problem.
 */
export interface Vocabulary {
  readonly words: readonly string[];
  readonly people: readonly string[];
  readonly cities: readonly string[];
  readonly foods: readonly string[];
  readonly animals: readonly string[];
  readonly colors: readonly string[];
}

export type Part = 'training' | 'frozen';

const list = (text: string): string[] => text.split(' ');

export const VOCABULARIES: Readonly<Record<Part, Vocabulary>> = {
  training: {
    words: list(
      'river apple stone lamp green paper window garden silver bread table winter music letter bridge summer kitchen forest ' +
        'shadow butter candle pencil mountain basket island rocket button pillow market morning flower hammer ticket bottle carpet ' +
        'dragon engine feather guitar helmet jacket ladder mirror needle ocean planet rabbit saddle tunnel velvet wagon zebra',
    ),
    people: list('Anna Tom Mia Ben Clara Paul Nina Carl Ella Hugo Ida Leo Rosa Max Vera Oscar'),
    cities: list('Oslo Paris Lyon Graz Leeds Turin Madrid Dublin Boston Denver'),
    foods: list('soup rice cake bread pasta fish cheese salad'),
    animals: list('cat horse parrot rabbit goat snake turtle hamster'),
    colors: list('red blue green white black pink'),
  },
  frozen: {
    words: list(
      'tower lemon metal chair purple cotton doctor harbor copper honey desk spring poem cherry message tunic autumn brown cellar meadow ' +
        'thunder sugar torch marker valley barrel lagoon vessel zipper blanket bazaar evening blossom chisel',
    ),
    people: list('Greta Simon Olga Felix Maria Victor Laura Ivan'),
    cities: list('Vienna Bristol Ghent Zagreb Seville Austin'),
    foods: list('pizza beans stew toast curry'),
    animals: list('dog pony canary ferret donkey'),
    colors: list('yellow orange purple brown'),
  },
};
