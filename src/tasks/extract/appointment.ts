import { currencyRole, type DocumentKind } from './document.js';

/** An appointment between a client and an adviser. */
export const APPOINTMENT: DocumentKind = {
  id: 'appointment',
  openings: {
    training: ['For the calendar:', 'A new appointment.', 'Please note:'],
    frozen: ['Reminder:', 'Entry for the diary.'],
  },
  closings: {
    training: ['Please confirm.', 'That is all.', ''],
    frozen: ['Nothing else is known yet.', 'Please put it down.'],
  },
  roles: [
    {
      kind: 'text',
      pool: 'people',
      meaning: 'who comes as the client',
      training: {
        keys: ['client', 'visitor'],
        labels: ['Client', 'Visitor'],
        sentences: ['The client is {}.', '{} comes as the client.'],
      },
      frozen: {
        keys: ['for_whom'],
        labels: ['Appointment of the client'],
        sentences: ['A client, {}, asked for it.', 'It is a visit by the client {}.'],
      },
    },
    {
      kind: 'text',
      pool: 'people',
      meaning: 'adviser whom the client sees',
      training: {
        keys: ['adviser', 'with'],
        labels: ['Adviser', 'With'],
        sentences: ['The adviser will be {}.', 'The meeting is with our adviser {}.'],
      },
      frozen: {
        keys: ['consultant'],
        labels: ['Adviser in charge'],
        sentences: ['Our adviser {} is in charge.', 'The advice is given by {}.'],
      },
    },
    {
      kind: 'text',
      pool: 'venues',
      meaning: 'building of the meeting',
      training: {
        keys: ['building', 'place'],
        labels: ['Building', 'Place'],
        sentences: ['They meet at the {}.', 'The building is the {}.'],
      },
      frozen: {
        keys: ['site'],
        labels: ['Site'],
        sentences: ['Both go to the {}.', 'It is held in the {}.'],
      },
    },
    {
      kind: 'text',
      pool: 'cities',
      meaning: 'city the client comes from',
      training: {
        keys: ['home_city', 'comes_from'],
        labels: ['Home city', 'Comes from'],
        sentences: ['The client comes from {}.', 'Home city: {}.'],
      },
      frozen: {
        keys: ['hometown'],
        labels: ['Home town'],
        sentences: ['Home of the client is {}.', 'The client travels from {}.'],
      },
    },
    {
      kind: 'integer',
      from: 2,
      to: 14,
      meaning: 'number of the room',
      training: {
        keys: ['room'],
        labels: ['Room'],
        sentences: ['It is in room {}.', 'Room {} is free for it.'],
      },
      frozen: {
        keys: ['room_number'],
        labels: ['Room number'],
        sentences: ['Go to room {}.', 'The door says room {}.'],
      },
    },
    {
      kind: 'integer',
      from: 15,
      to: 95,
      meaning: 'length in minutes',
      training: {
        keys: ['minutes', 'length'],
        labels: ['Minutes', 'Length in minutes'],
        sentences: ['It takes {} minutes.', 'Plan {} minutes for it.'],
      },
      frozen: {
        keys: ['duration'],
        labels: ['Duration in minutes'],
        sentences: ['It should last {} minutes.', 'Keep {} minutes free.'],
      },
    },
    {
      kind: 'amount',
      from: 20,
      to: 1500,
      meaning: 'fee for the meeting',
      training: {
        keys: ['fee', 'cost'],
        labels: ['Fee', 'Cost of the meeting'],
        sentences: ['The fee is {}.', 'The meeting costs {}.'],
      },
      frozen: {
        keys: ['charge'],
        labels: ['Charge'],
        sentences: ['We charge {} for it.', 'The bill for the meeting will be {}.'],
      },
    },
    {
      kind: 'amount',
      from: 5,
      to: 90,
      meaning: 'deposit that was paid',
      training: {
        keys: ['deposit', 'paid_before'],
        labels: ['Deposit', 'Paid before'],
        sentences: ['A deposit of {} was paid.', 'The deposit was {}.'],
      },
      frozen: {
        keys: ['advance'],
        labels: ['Paid in advance'],
        sentences: ['In advance we received {}.', 'There was an advance payment of {}.'],
      },
    },
    {
      kind: 'date',
      from: 1,
      to: 90,
      meaning: 'day of the meeting',
      training: {
        keys: ['day', 'date'],
        labels: ['Day of the meeting', 'Date'],
        sentences: ['The day of the meeting: {}.', 'They meet on this day: {}.'],
      },
      frozen: {
        keys: ['meeting_day'],
        labels: ['Meeting'],
        sentences: ['The meeting is {}.', 'Both are free {}, so it is then.'],
      },
    },
    {
      kind: 'date',
      from: -40,
      to: 0,
      meaning: 'day on which the client called',
      training: {
        keys: ['called', 'call_date'],
        labels: ['Called', 'Day of the call'],
        sentences: ['Day of the call: {}.', 'The client called: {}.'],
      },
      frozen: {
        keys: ['phoned'],
        labels: ['Client phoned'],
        sentences: ['We had the client on the phone {}.', 'The client phoned {}.'],
      },
    },
    {
      kind: 'time',
      meaning: 'when the meeting begins',
      training: {
        keys: ['time', 'start'],
        labels: ['Time', 'Start'],
        sentences: ['The meeting begins at {}.', 'Start: {}.'],
      },
      frozen: {
        keys: ['from'],
        labels: ['Meeting from'],
        sentences: ['Be there at {}.', 'They sit down at {}.'],
      },
    },
    {
      kind: 'time',
      meaning: 'when the office closes',
      training: {
        keys: ['closes', 'office_closes'],
        labels: ['Office closes', 'Closing time'],
        sentences: ['The office closes at {}.', 'Closing time is {}.'],
      },
      frozen: {
        keys: ['open_until'],
        labels: ['Office open until'],
        sentences: ['The office is open until {}.', 'We lock the office at {}.'],
      },
    },
    {
      kind: 'boolean',
      meaning: 'whether it is the first visit',
      training: {
        keys: ['first_visit', 'new_client'],
        labels: ['First visit', 'New client'],
        sentences: [
          ['It is the first visit.', 'It is not the first visit.'],
          ['The client is new here.', 'The client has been here before.'],
        ],
      },
      frozen: {
        keys: ['never_here_before'],
        labels: ['Here for the first time'],
        sentences: [
          ['The client was never here.', 'The client was here before.'],
          ['Nobody here knows the client yet.', 'We know the client from an earlier visit.'],
        ],
      },
    },
    currencyRole(['currency'], ['currency_code']),
  ],
};
