import { CURRENCY, role, type DocumentKind } from './document.js';

/** A receipt, or a note of one. */
export const RECEIPT: DocumentKind = {
  id: 'receipt',
  openings: {
    training: ['Receipt.', 'For the books:', 'Note of a purchase.'],
    frozen: ['Proof of purchase.', 'For accounting:'],
  },
  closings: {
    training: ['Keep this slip.', 'Thank you for your visit.', ''],
    frozen: ['Please come again.', 'End of the slip.'],
  },
  roles: [
    role({ kind: 'text', pool: 'shops' }, 'name of the shop', {
      training: 'shop / store | Shop / Store | The shop is the {}. / It was bought at the {}.',
      frozen: 'seller | Seller | The seller is the {}. / We went to the {} for it.',
    }),
    role({ kind: 'text', pool: 'people' }, 'who sat at the till', {
      training:
        'cashier / served_by | Cashier / Served by | The cashier was {}. / Served by {} at the till.',
      frozen: 'till_person | At the till | At the till sat {}. / It was rung up by {}.',
    }),
    role({ kind: 'text', pool: 'people' }, 'who bought', {
      training:
        'customer / bought_by | Customer / Bought by | The customer was {}. / Bought by {}.',
      frozen: 'purchaser | Purchaser | The purchaser is {}. / Our colleague {} did the shopping.',
    }),
    role({ kind: 'text', pool: 'products' }, 'what was bought', {
      training: 'product / item | Product / Item | The item is the {}. / Product bought: {}.',
      frozen: 'goods | Goods | In the bag is the {}. / What was bought is called {}.',
    }),
    role({ kind: 'integer', from: 2, to: 30 }, 'how many pieces', {
      training: 'count / pieces | Count / Pieces | Number of pieces: {}. / {} pieces were bought.',
      frozen: 'how_many | How many | There are {} of it in the bag. / We took {} of it.',
    }),
    role({ kind: 'integer', from: 31, to: 99 }, 'number of the till', {
      training:
        'till / till_number | Till / Till number | It was till number {}. / Paid at till {}.',
      frozen: 'register | Register | The register has number {}. / It went through register {}.',
    }),
    role({ kind: 'amount', from: 5, to: 4000 }, 'total to pay', {
      training: 'total / sum | Total / Sum to pay | The total is {}. / In total it was {}.',
      frozen: 'amount_due | Amount due | All in all we paid {}. / The amount due was {}.',
    }),
    role({ kind: 'amount', from: 2, to: 80 }, 'tax within the total', {
      training: 'tax / vat | Tax / VAT | The tax in it is {}. / It contains {} of tax.',
      frozen: 'duty | Of which tax | The state gets {} of it as tax. / Tax makes up {} of it.',
    }),
    role({ kind: 'date', from: -60, to: 0 }, 'day of the purchase', {
      training:
        'date / bought_on | Date / Bought on | Day of the purchase: {}. / The purchase was made: {}.',
      frozen: 'paid_on | Day of payment | We were in the shop {}. / The purchase took place {}.',
    }),
    role({ kind: 'date', from: 1, to: 60 }, 'last day for a return', {
      training:
        'return_by / returns_until | Return by / Returns until | Last day for a return: {}. / Returns end on this day: {}.',
      frozen:
        'exchange_until | Exchange until | It can be given back until {}. / The last day to exchange it is {}.',
    }),
    role({ kind: 'time' }, 'time of the purchase', {
      training:
        'time / bought_at | Time / Time of purchase | The time of the purchase was {}. / Bought at {}.',
      frozen: 'clock | Clock at the till | The clock at the till showed {}. / It was paid at {}.',
    }),
    role({ kind: 'boolean' }, 'whether it was paid by card', {
      training:
        'card / paid_by_card | Card / Paid by card | It was paid by card. / Payment was by card. ' +
        '| It was not paid by card. / Payment was in cash.',
      frozen:
        'cashless | Card used | The card was used to pay. / We held the card to the till. ' +
        '| Coins and notes were used to pay. / We left the card at home and paid cash.',
    }),
    CURRENCY,
  ],
};
