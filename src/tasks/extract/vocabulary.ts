/**
 * Names that messages are filled with. No name of the frozen sets is one of training, nor is any
 * word of it.
 */
export type PoolName = 'people' | 'products' | 'events' | 'venues' | 'shops' | 'cities';

/**
 * A name is one word of each list, so that it has a beginning and an end that cannot be mistaken.
 */
export type Pools = Readonly<Record<PoolName, readonly (readonly string[])[]>>;

const words = (text: string): string[] => text.split(' ');

/** Which vocabulary and which phrases: those that training may see, or those of the frozen sets. */
export type Phrasing = 'training' | 'frozen';

export const POOLS: Readonly<Record<Phrasing, Pools>> = {
  training: {
    people: [
      words(
        'Anna Tom Mia Ben Clara Paul Nina Carl Ella Hugo Ida Leo Rosa Max Vera Oscar Lucy Adam Sofia Peter Emma Jack Helen Martin',
      ),
      words(
        'Berg Holt Stone Reed Fox Lane Marsh Novak Perez Silva Weber Klein Moore Hayes Brandt Costa Duran Fisher Grant Keller',
      ),
    ],
    products: [
      words('Aurora Nova Comet Cedar Delta Ivory Velvet Copper Sierra Maple Indigo Falcon'),
      words('Lamp Kettle Chair Backpack Blender Clock Mirror Heater Pillow Toaster Bench Tripod'),
    ],
    events: [
      words('Jazz Folk Choir Opera Comedy Dance Magic Film Poetry Circus'),
      words('Night Gala Evening Show Festival Revue Matinee Premiere'),
    ],
    venues: [
      words('Harbour Garden Castle River Station Market Abbey Mill Garrison Bridge'),
      words('Hall House Theatre Centre Studio Pavilion Clinic Lodge'),
    ],
    shops: [
      words('Corner Golden Little Village Sunny Royal Daily Happy'),
      words('Bakery Bookshop Grocer Pharmacy Bistro Florist Deli Hardware'),
    ],
    cities: [words('Oslo Porto Lyon Graz Leeds Turin Bergen Malaga Dresden Utrecht Boston Denver')],
  },
  frozen: {
    people: [
      words(
        'Greta Simon Olga Felix Maria Victor Laura Ivan Julia Samuel Petra Daniel Astrid Omar Tessa Bruno',
      ),
      words(
        'Lindqvist Carter Romano Schultz Okafor Bauer Dubois Nakamura Petrov Walsh Jensen Moretti Hughes Vargas',
      ),
    ],
    products: [
      words('Zephyr Cobalt Juniper Orion Saffron Tundra Willow Onyx'),
      words('Fan Ladder Radio Drill Curtain Scooter Basket Helmet'),
    ],
    events: [
      words('Ballet Piano Puppet Tango Swing Harvest'),
      words('Recital Concert Marathon Parade Cabaret Session'),
    ],
    venues: [
      words('Lakeside Palace Forest Museum Harvard Orchard Canal'),
      words('Arena Chapel Ballroom Gallery Annex Rotunda'),
    ],
    shops: [
      words('Silver Crystal Union Meadow Rainbow Lucky'),
      words('Diner Butcher Stationer Optician Creamery Outfitters'),
    ],
    cities: [words('Vienna Bristol Ghent Zagreb Tampere Aarhus Seville Austin')],
  },
};
