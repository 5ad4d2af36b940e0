import { currencyRole, type DocumentKind } from './document.js';

/** A booking of seats at an event. */
export const TICKET: DocumentKind = {
  id: 'ticket',
  openings: {
    training: ['Hi there,', 'Good evening,', 'Dear box office,'],
    frozen: ['To the ticket desk,', 'Good afternoon,'],
  },
  closings: {
    training: ['Many thanks.', 'See you then.', ''],
    frozen: ['We look forward to it.', 'Best wishes.'],
  },
  roles: [
    {
      kind: 'text',
      pool: 'people',
      meaning: 'who booked',
      training: {
        keys: ['guest', 'booked_by'],
        labels: ['Guest', 'Booked by'],
        sentences: ['The booking is under the name {}.', 'I am {} and have booked.', 'Guest: {}.'],
      },
      frozen: {
        keys: ['name_on_booking'],
        labels: ['Name on the booking'],
        sentences: ['You will find us under {}.', 'It was {} who booked.'],
      },
    },
    {
      kind: 'text',
      pool: 'people',
      meaning: 'who performs',
      training: {
        keys: ['artist', 'performer'],
        labels: ['Artist', 'On stage'],
        sentences: ['On stage is {}.', 'The artist is {}.'],
      },
      frozen: {
        keys: ['star'],
        labels: ['Star of the evening'],
        sentences: ['We come to see {} perform.', 'The star of the evening is {}.'],
      },
    },
    {
      kind: 'text',
      pool: 'events',
      meaning: 'name of the event',
      training: {
        keys: ['event', 'show'],
        labels: ['Event', 'Show'],
        sentences: ['The event is the {}.', 'We are coming to the {}.'],
      },
      frozen: {
        keys: ['programme'],
        labels: ['Programme'],
        sentences: ['It is about the {}.', 'We have tickets for the {}.'],
      },
    },
    {
      kind: 'text',
      pool: 'venues',
      meaning: 'where the event is',
      training: {
        keys: ['venue', 'place'],
        labels: ['Venue', 'Place'],
        sentences: ['It takes place at the {}.', 'The venue is the {}.'],
      },
      frozen: {
        keys: ['location'],
        labels: ['Location'],
        sentences: ['You find it in the {}.', 'Everybody meets at the {}.'],
      },
    },
    {
      kind: 'integer',
      from: 2,
      to: 12,
      meaning: 'how many seats',
      training: {
        keys: ['seats', 'tickets'],
        labels: ['Seats', 'Number of seats'],
        sentences: ['We need {} seats.', 'Please keep {} seats for us.'],
      },
      frozen: {
        keys: ['places_taken'],
        labels: ['Persons'],
        sentences: ['There are {} of us.', 'Our party has {} persons.'],
      },
    },
    {
      kind: 'integer',
      from: 13,
      to: 40,
      meaning: 'number of the row',
      training: {
        keys: ['row'],
        labels: ['Row'],
        sentences: ['We sit in row {}.', 'Our row is number {}.'],
      },
      frozen: {
        keys: ['row_number'],
        labels: ['Row number'],
        sentences: ['The seats are in row {}.', 'Row {} was promised to us.'],
      },
    },
    {
      kind: 'amount',
      from: 8,
      to: 250,
      meaning: 'price of one seat',
      training: {
        keys: ['price', 'seat_price'],
        labels: ['Price of a seat', 'Per seat'],
        sentences: ['One seat costs {}.', 'The price of a seat is {}.'],
      },
      frozen: {
        keys: ['fare'],
        labels: ['Each seat'],
        sentences: ['Each person pays {}.', 'For a single seat we were told {}.'],
      },
    },
    {
      kind: 'amount',
      from: 2,
      to: 30,
      meaning: 'booking fee',
      training: {
        keys: ['fee', 'booking_fee'],
        labels: ['Booking fee', 'Fee'],
        sentences: ['The booking fee is {}.', 'There is a fee of {}.'],
      },
      frozen: {
        keys: ['surcharge'],
        labels: ['Surcharge'],
        sentences: ['Booking adds {}.', 'A surcharge of {} comes on top.'],
      },
    },
    {
      kind: 'date',
      from: 1,
      to: 120,
      meaning: 'day of the event',
      training: {
        keys: ['day', 'event_date'],
        labels: ['Day', 'Date of the event'],
        sentences: ['The day of the event: {}.', 'We will be there on this day: {}.'],
      },
      frozen: {
        keys: ['takes_place'],
        labels: ['Takes place'],
        sentences: ['The performance is {}.', 'It will be given {}.'],
      },
    },
    {
      kind: 'date',
      from: -60,
      to: 0,
      meaning: 'day of the booking',
      training: {
        keys: ['booked', 'booking_date'],
        labels: ['Booked', 'Date of booking'],
        sentences: ['The booking was made: {}.', 'Day of the booking: {}.'],
      },
      frozen: {
        keys: ['reserved'],
        labels: ['Reserved'],
        sentences: ['I reserved the seats {}.', 'The seats were reserved {}.'],
      },
    },
    {
      kind: 'time',
      meaning: 'when it begins',
      training: {
        keys: ['start', 'begins'],
        labels: ['Start', 'Begins'],
        sentences: ['It begins at {}.', 'The start is at {}.'],
      },
      frozen: {
        keys: ['curtain'],
        labels: ['Curtain'],
        sentences: ['The curtain rises at {}.', 'They start to play at {}.'],
      },
    },
    {
      kind: 'time',
      meaning: 'when the doors open',
      training: {
        keys: ['doors', 'doors_open'],
        labels: ['Doors', 'Doors open'],
        sentences: ['Doors open at {}.', 'The doors are open from {}.'],
      },
      frozen: {
        keys: ['admission'],
        labels: ['Admission from'],
        sentences: ['You let people in at {}.', 'Admission is from {}.'],
      },
    },
    {
      kind: 'boolean',
      meaning: 'whether a parking space is wanted',
      training: {
        keys: ['parking', 'parking_space'],
        labels: ['Parking', 'Parking space'],
        sentences: [
          ['We need a parking space.', 'We need no parking space.'],
          ['Parking is wanted.', 'Parking is not wanted.'],
        ],
      },
      frozen: {
        keys: ['by_car'],
        labels: ['Space for the car'],
        sentences: [
          ['Keep a space for our car.', 'Keep no space for a car.'],
          ['We want to park there.', 'We do not want to park there.'],
        ],
      },
    },
    currencyRole(['currency'], ['currency_code']),
  ],
};
