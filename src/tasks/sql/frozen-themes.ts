import { entity, pairs, theme, type Theme } from './theme.js';

/** Themes of the frozen sets, which training never sees: they share no table with those above. */
export const FROZEN_THEMES: Readonly<Record<'test' | 'dev', readonly Theme[]>> = {
  test: [
    theme(
      'ships',
      entity(
        'ships ship name',
        pairs('Ocean Polar Amber Brave', 'Queen Pioneer Spirit Wave'),
        'cargo: coal grain oil cars',
        'length 40 350, crew 6 90',
      ),
      entity(
        'ports port name',
        pairs('Cape Saint Port Bay', 'Helena Marie Anton Clare'),
        'sea: Baltic Adriatic Aegean Caribbean',
        'docks 1 40, depth 5 25 1',
      ),
      entity(
        'captains captain name',
        pairs('Ada Bruno Greta Emil', 'Larsen Vidal Popov Quinn'),
        'rank: junior senior chief reserve',
        'voyages 1 90, age 25 70',
      ),
    ),
    theme(
      'museums',
      entity(
        'paintings painting title',
        pairs('Sleeping Burning White Distant', 'Horse Harvest Bridge Child'),
        'technique: oil ink chalk tempera',
        'width 20 400, value 1 95 1',
      ),
      entity(
        'museums museum name',
        pairs('Royal City Stone Glass', 'Museum Gallery Collection Palace'),
        'town: Ghent Turin Seville Krakow',
        'halls 2 50, guards 2 60',
      ),
      entity(
        'painters painter name',
        pairs('Pia Anton Celia Rafael', 'Vos Brandt Ferri Luz'),
        'school: baroque cubist romantic naive',
        'prizes 0 24, works 3 250',
      ),
    ),
    theme(
      'astronomy',
      entity(
        'planets planet name',
        pairs('Kappa Sigma Theta Zeta', 'Prime Minor Secunda Ultima'),
        'surface: rock ice gas lava',
        'moons 0 20, mass 1 90 1',
      ),
      entity(
        'stars star name',
        pairs('Alpha Beta Gamma Omega', 'Lupi Cygni Hydrae Leonis'),
        'hue: crimson azure amber pale',
        'temperature 2500 9000, distance 4 800',
      ),
      entity(
        'telescopes telescope name',
        pairs('Great Deep Twin Desert', 'Eye Mirror Array Dish'),
        'site: Chile Hawaii Namibia Tenerife',
        'diameter 1 39 1, budget 10 900',
      ),
    ),
    theme(
      'farms',
      entity(
        'horses horse name',
        pairs('Thunder Misty Clever Sandy', 'Dancer Comet Button Shadow'),
        'breed: Arabian Shire Haflinger Mustang',
        'weight 250 950, wins 0 25',
      ),
      entity(
        'stables stable name',
        pairs('Hill Brook Chapel Windmill', 'Stable Ranch Yard Farm'),
        'county: Kent Devon Cork Fife',
        'boxes 4 60, rent 20 95 1',
      ),
      entity(
        'riders rider name',
        pairs('Olga Theo Bianca Yusuf', 'Stahl Conti Haddad Reed'),
        'class: beginner amateur expert champion',
        'medals 0 14, height 145 195',
      ),
    ),
  ],
  dev: [
    theme(
      'railways',
      entity(
        'trains train name',
        pairs('Express Regional Night Freight', 'Arrow Falcon Comet Pearl'),
        'engine: diesel electric steam hybrid',
        'wagons 2 40, speed 60 320',
      ),
      entity(
        'stations station name',
        pairs('Upper New Old Market', 'Bridge Gate Cross Junction'),
        'zone: inner outer airport border',
        'platforms 1 20, benches 4 90',
      ),
      entity(
        'companies company name',
        pairs('Trans Euro Alpine Nordic', 'Rail Lines Cargo Transit'),
        'owner: state private mixed foreign',
        'drivers 5 400, profit 1 50 1',
      ),
    ),
    theme(
      'vineyards',
      entity(
        'wines wine name',
        pairs('Noble Dusty Clear Ancient', 'Slope Cellar Ridge Spring'),
        'grape: Riesling Merlot Syrah Malbec',
        'bottles 50 5000, alcohol 8 16 1',
      ),
      entity(
        'estates estate name',
        pairs('Villa Domaine Quinta Hof', 'Aurora Bellini Serra Linde'),
        'valley: Mosel Rhone Douro Maipo',
        'hectares 2 120, workers 1 70',
      ),
      entity(
        'importers importer name',
        pairs('Baltic Atlantic Iberian Swiss', 'Imports Cellars Wines Brokers'),
        'market: Sweden Canada Korea Finland',
        'trucks 1 30, margin 5 35 1',
      ),
    ),
  ],
};
