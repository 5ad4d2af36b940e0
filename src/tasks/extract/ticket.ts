import { CURRENCY, role, type DocumentKind } from './document.js';

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
    role({ kind: 'text', pool: 'people' }, 'who booked', {
      training:
        'guest / booked_by | Guest / Booked by | The booking is under the name {}. / I am {} and have booked. / Guest: {}.',
      frozen:
        'name_on_booking | Name on the booking | You will find us under {}. / It was {} who booked.',
    }),
    role({ kind: 'text', pool: 'people' }, 'who performs', {
      training: 'artist / performer | Artist / On stage | On stage is {}. / The artist is {}.',
      frozen:
        'star | Star of the evening | We come to see {} perform. / The star of the evening is {}.',
    }),
    role({ kind: 'text', pool: 'events' }, 'name of the event', {
      training: 'event / show | Event / Show | The event is the {}. / We are coming to the {}.',
      frozen: 'programme | Programme | It is about the {}. / We have tickets for the {}.',
    }),
    role({ kind: 'text', pool: 'venues' }, 'where the event is', {
      training: 'venue / place | Venue / Place | It takes place at the {}. / The venue is the {}.',
      frozen: 'location | Location | You find it in the {}. / Everybody meets at the {}.',
    }),
    role({ kind: 'integer', from: 2, to: 12 }, 'how many seats', {
      training:
        'seats / tickets | Seats / Number of seats | We need {} seats. / Please keep {} seats for us.',
      frozen: 'places_taken | Persons | There are {} of us. / Our party has {} persons.',
    }),
    role({ kind: 'integer', from: 13, to: 40 }, 'number of the row', {
      training: 'row | Row | We sit in row {}. / Our row is number {}.',
      frozen: 'row_number | Row number | The seats are in row {}. / Row {} was promised to us.',
    }),
    role({ kind: 'amount', from: 8, to: 250 }, 'price of one seat', {
      training:
        'price / seat_price | Price of a seat / Per seat | One seat costs {}. / The price of a seat is {}.',
      frozen: 'fare | Each seat | Each person pays {}. / For a single seat we were told {}.',
    }),
    role({ kind: 'amount', from: 2, to: 30 }, 'booking fee', {
      training:
        'fee / booking_fee | Booking fee / Fee | The booking fee is {}. / There is a fee of {}.',
      frozen: 'surcharge | Surcharge | Booking adds {}. / A surcharge of {} comes on top.',
    }),
    role({ kind: 'date', from: 1, to: 120 }, 'day of the event', {
      training:
        'day / event_date | Day / Date of the event | The day of the event: {}. / We will be there on this day: {}.',
      frozen: 'takes_place | Takes place | The performance is {}. / It will be given {}.',
    }),
    role({ kind: 'date', from: -60, to: 0 }, 'day of the booking', {
      training:
        'booked / booking_date | Booked / Date of booking | The booking was made: {}. / Day of the booking: {}.',
      frozen: 'reserved | Reserved | I reserved the seats {}. / The seats were reserved {}.',
    }),
    role({ kind: 'time' }, 'when it begins', {
      training: 'start / begins | Start / Begins | It begins at {}. / The start is at {}.',
      frozen: 'curtain | Curtain | The curtain rises at {}. / They start to play at {}.',
    }),
    role({ kind: 'time' }, 'when the doors open', {
      training:
        'doors / doors_open | Doors / Doors open | Doors open at {}. / The doors are open from {}.',
      frozen: 'admission | Admission from | You let people in at {}. / Admission is from {}.',
    }),
    role({ kind: 'boolean' }, 'whether a parking space is wanted', {
      training:
        'parking / parking_space | Parking / Parking space | We need a parking space. / Parking is wanted. ' +
        '| We need no parking space. / Parking is not wanted.',
      frozen:
        'by_car | Space for the car | Keep a space for our car. / We want to park there. ' +
        '| Keep no space for a car. / We do not want to park there.',
    }),
    CURRENCY,
  ],
};
