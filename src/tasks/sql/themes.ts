import { entity, pairs, theme, type Theme } from './theme.js';

/** Themes of the problems that are generated, for training among others. */
export const THEMES: readonly Theme[] = [
  theme(
    'films',
    entity(
      'films film title',
      pairs('Silent Golden Last Hidden', 'River Winter Signal Garden'),
      'genre: drama comedy crime horror western',
      'minutes 70 190, rating 2 9 1',
    ),
    entity(
      'studios studio name',
      pairs('North Blue Lion Moon', 'Pictures Studio Films Works'),
      'country: France Italy Japan Brazil',
      'stages 1 40, employees 10 400',
    ),
    entity(
      'directors director name',
      pairs('Anna Paul Mia Omar', 'Keller Rossi Tanaka Silva'),
      'style: classic modern dark playful',
      'age 28 80, awards 0 12',
    ),
  ),
  theme(
    'books',
    entity(
      'books book title',
      pairs('Paper Distant Broken Quiet', 'Islands Letters Roads Stars'),
      'language: English German Spanish Polish',
      'pages 80 900, price 4 40 1',
    ),
    entity(
      'authors author name',
      pairs('Clara Jonas Ines Victor', 'Weber Moreau Novak Diaz'),
      'country: Austria Spain Poland Chile',
      'age 25 90, prizes 0 9',
    ),
    entity(
      'publishers publisher name',
      pairs('Oak Harbor Falcon Linden', 'Press House Verlag Books'),
      'city: Berlin Madrid Vienna Boston',
      'titles 20 900, staff 5 300',
    ),
  ),
  theme(
    'football',
    entity(
      'players player name',
      pairs('Leo Marco Ivan Samuel', 'Costa Berg Petrov Mensah'),
      'position: keeper defender midfielder striker',
      'goals 0 30, age 17 38',
    ),
    entity(
      'teams team name',
      pairs('River Iron Star Royal', 'United Rovers City Athletic'),
      'league: north south east west',
      'points 5 90, trophies 0 40',
    ),
    entity(
      'agents agent name',
      pairs('Rita Hugo Nadia Felix', 'Lang Marino Okafor Sand'),
      'office: London Lisbon Zurich Milan',
      'clients 1 40, fee 2 15 1',
    ),
  ),
  theme(
    'restaurants',
    entity(
      'dishes dish name',
      pairs('Spicy Roasted Creamy Fresh', 'Noodles Lentils Pumpkin Mushrooms'),
      'course: starter main dessert side',
      'calories 80 1200, price 3 30 1',
    ),
    entity(
      'restaurants restaurant name',
      pairs('Red Old Little Green', 'Lantern Kitchen Table Barrel'),
      'district: center harbor station hills',
      'seats 10 150, stars 1 5 1',
    ),
    entity(
      'cooks cook name',
      pairs('Lena Pedro Aisha Tom', 'Fischer Gomez Khan Baker'),
      'training: school family army self',
      'years 1 40, salary 1800 6000',
    ),
  ),
  theme(
    'music',
    entity(
      'songs song title',
      pairs('Midnight Electric Summer Lonely', 'Train Dance Rain Heart'),
      'genre: rock jazz folk techno',
      'seconds 90 600, plays 0 5000',
    ),
    entity(
      'artists artist name',
      pairs('Luna Rex Ivy Milo', 'Stone Vale Frost Cruz'),
      'country: Norway Cuba Kenya Ireland',
      'age 18 75, fans 100 9000',
    ),
    entity(
      'labels label name',
      pairs('Velvet Copper Echo Tiger', 'Records Sound Music Audio'),
      'city: Oslo Havana Dublin Paris',
      'albums 5 400, staff 2 200',
    ),
  ),
  theme(
    'offices',
    entity(
      'employees employee name',
      pairs('Eva Karl Sofia David', 'Braun Horvat Lopez Smith'),
      'role: analyst engineer clerk designer',
      'salary 2000 9000, age 20 65',
    ),
    entity(
      'departments department name',
      pairs('Central Public Digital Foreign', 'Sales Research Planning Support'),
      'floor: ground first second third',
      'budget 10 500, desks 4 80',
    ),
    entity(
      'projects project name',
      pairs('Project Plan Study Pilot', 'Apollo Delta Nova Orion'),
      'status: open paused closed late',
      'weeks 2 60, cost 5 90 1',
    ),
  ),
  theme(
    'gardens',
    entity(
      'plants plant name',
      pairs('Dwarf Wild Golden Royal', 'Rose Fern Lily Maple'),
      'color: red white yellow violet',
      'height 5 300, age 1 60',
    ),
    entity(
      'gardens garden name',
      pairs('Upper Lower Castle Abbey', 'Garden Park Meadow Terrace'),
      'soil: clay sand loam peat',
      'area 20 900, visitors 0 5000',
    ),
    entity(
      'suppliers supplier name',
      pairs('Green Sunny Valley Forest', 'Nursery Seeds Farm Trade'),
      'region: coast plain mountains lakes',
      'distance 2 300, discount 0 20 1',
    ),
  ),
  theme(
    'schools',
    entity(
      'courses course title',
      pairs('Basic Applied Modern Advanced', 'Algebra Chemistry History Drawing'),
      'level: easy medium hard expert',
      'hours 10 120, students 4 60',
    ),
    entity(
      'teachers teacher name',
      pairs('Julia Peter Amira Noah', 'Hansen Marek Rao Wood'),
      'subject: science arts sports languages',
      'age 24 66, years 1 40',
    ),
    entity(
      'rooms room name',
      pairs('East West North South', 'Hall Lab Studio Library'),
      'building: main annex tower pavilion',
      'seats 8 200, area 15 250',
    ),
  ),
];
