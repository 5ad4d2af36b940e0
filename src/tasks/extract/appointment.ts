import { CURRENCY, role, type DocumentKind } from './document.js';

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
    role({ kind: 'text', pool: 'people' }, 'who comes as the client', {
      training: 'client / visitor | Client / Visitor | The client is {}. / {} comes as the client.',
      frozen:
        'for_whom | Appointment of the client | A client, {}, asked for it. / It is a visit by the client {}.',
    }),
    role({ kind: 'text', pool: 'people' }, 'adviser whom the client sees', {
      training:
        'adviser / with | Adviser / With | The adviser will be {}. / The meeting is with our adviser {}.',
      frozen:
        'consultant | Adviser in charge | Our adviser {} is in charge. / The advice is given by {}.',
    }),
    role({ kind: 'text', pool: 'venues' }, 'building of the meeting', {
      training:
        'building / place | Building / Place | They meet at the {}. / The building is the {}.',
      frozen: 'site | Site | Both go to the {}. / It is held in the {}.',
    }),
    role({ kind: 'text', pool: 'cities' }, 'city the client comes from', {
      training:
        'home_city / comes_from | Home city / Comes from | The client comes from {}. / Home city: {}.',
      frozen: 'hometown | Home town | Home of the client is {}. / The client travels from {}.',
    }),
    role({ kind: 'integer', from: 2, to: 14 }, 'number of the room', {
      training: 'room | Room | It is in room {}. / Room {} is free for it.',
      frozen: 'room_number | Room number | Go to room {}. / The door says room {}.',
    }),
    role({ kind: 'integer', from: 15, to: 95 }, 'length in minutes', {
      training:
        'minutes / length | Minutes / Length in minutes | It takes {} minutes. / Plan {} minutes for it.',
      frozen: 'duration | Duration in minutes | It should last {} minutes. / Keep {} minutes free.',
    }),
    role({ kind: 'amount', from: 20, to: 1500 }, 'fee for the meeting', {
      training: 'fee / cost | Fee / Cost of the meeting | The fee is {}. / The meeting costs {}.',
      frozen: 'charge | Charge | We charge {} for it. / The bill for the meeting will be {}.',
    }),
    role({ kind: 'amount', from: 5, to: 90 }, 'deposit that was paid', {
      training:
        'deposit / paid_before | Deposit / Paid before | A deposit of {} was paid. / The deposit was {}.',
      frozen:
        'advance | Paid in advance | In advance we received {}. / There was an advance payment of {}.',
    }),
    role({ kind: 'date', from: 1, to: 90 }, 'day of the meeting', {
      training:
        'day / date | Day of the meeting / Date | The day of the meeting: {}. / They meet on this day: {}.',
      frozen: 'meeting_day | Meeting | The meeting is {}. / Both are free {}, so it is then.',
    }),
    role({ kind: 'date', from: -40, to: 0 }, 'day on which the client called', {
      training:
        'called / call_date | Called / Day of the call | Day of the call: {}. / The client called: {}.',
      frozen: 'phoned | Client phoned | We had the client on the phone {}. / The client phoned {}.',
    }),
    role({ kind: 'time' }, 'when the meeting begins', {
      training: 'time / start | Time / Start | The meeting begins at {}. / Start: {}.',
      frozen: 'from | Meeting from | Be there at {}. / They sit down at {}.',
    }),
    role({ kind: 'time' }, 'when the office closes', {
      training:
        'closes / office_closes | Office closes / Closing time | The office closes at {}. / Closing time is {}.',
      frozen:
        'open_until | Office open until | The office is open until {}. / We lock the office at {}.',
    }),
    role({ kind: 'boolean' }, 'whether it is the first visit', {
      training:
        'first_visit / new_client | First visit / New client | It is the first visit. / The client is new here. ' +
        '| It is not the first visit. / The client has been here before.',
      frozen:
        'never_here_before | Here for the first time | The client was never here. / Nobody here knows the client yet. ' +
        '| The client was here before. / We know the client from an earlier visit.',
    }),
    CURRENCY,
  ],
};
