import { currencyRole, type DocumentKind } from './document.js';

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
    {
      kind: 'text',
      pool: 'shops',
      meaning: 'name of the shop',
      training: {
        keys: ['shop', 'store'],
        labels: ['Shop', 'Store'],
        sentences: ['The shop is the {}.', 'It was bought at the {}.'],
      },
      frozen: {
        keys: ['seller'],
        labels: ['Seller'],
        sentences: ['The seller is the {}.', 'We went to the {} for it.'],
      },
    },
    {
      kind: 'text',
      pool: 'people',
      meaning: 'who sat at the till',
      training: {
        keys: ['cashier', 'served_by'],
        labels: ['Cashier', 'Served by'],
        sentences: ['The cashier was {}.', 'Served by {} at the till.'],
      },
      frozen: {
        keys: ['till_person'],
        labels: ['At the till'],
        sentences: ['At the till sat {}.', 'It was rung up by {}.'],
      },
    },
    {
      kind: 'text',
      pool: 'people',
      meaning: 'who bought',
      training: {
        keys: ['customer', 'bought_by'],
        labels: ['Customer', 'Bought by'],
        sentences: ['The customer was {}.', 'Bought by {}.'],
      },
      frozen: {
        keys: ['purchaser'],
        labels: ['Purchaser'],
        sentences: ['The purchaser is {}.', 'Our colleague {} did the shopping.'],
      },
    },
    {
      kind: 'text',
      pool: 'products',
      meaning: 'what was bought',
      training: {
        keys: ['product', 'item'],
        labels: ['Product', 'Item'],
        sentences: ['The item is the {}.', 'Product bought: {}.'],
      },
      frozen: {
        keys: ['goods'],
        labels: ['Goods'],
        sentences: ['In the bag is the {}.', 'What was bought is called {}.'],
      },
    },
    {
      kind: 'integer',
      from: 2,
      to: 30,
      meaning: 'how many pieces',
      training: {
        keys: ['count', 'pieces'],
        labels: ['Count', 'Pieces'],
        sentences: ['Number of pieces: {}.', '{} pieces were bought.'],
      },
      frozen: {
        keys: ['how_many'],
        labels: ['How many'],
        sentences: ['There are {} of it in the bag.', 'We took {} of it.'],
      },
    },
    {
      kind: 'integer',
      from: 31,
      to: 99,
      meaning: 'number of the till',
      training: {
        keys: ['till', 'till_number'],
        labels: ['Till', 'Till number'],
        sentences: ['It was till number {}.', 'Paid at till {}.'],
      },
      frozen: {
        keys: ['register'],
        labels: ['Register'],
        sentences: ['The register has number {}.', 'It went through register {}.'],
      },
    },
    {
      kind: 'amount',
      from: 5,
      to: 4000,
      meaning: 'total to pay',
      training: {
        keys: ['total', 'sum'],
        labels: ['Total', 'Sum to pay'],
        sentences: ['The total is {}.', 'In total it was {}.'],
      },
      frozen: {
        keys: ['amount_due'],
        labels: ['Amount due'],
        sentences: ['All in all we paid {}.', 'The amount due was {}.'],
      },
    },
    {
      kind: 'amount',
      from: 2,
      to: 80,
      meaning: 'tax within the total',
      training: {
        keys: ['tax', 'vat'],
        labels: ['Tax', 'VAT'],
        sentences: ['The tax in it is {}.', 'It contains {} of tax.'],
      },
      frozen: {
        keys: ['duty'],
        labels: ['Of which tax'],
        sentences: ['The state gets {} of it as tax.', 'Tax makes up {} of it.'],
      },
    },
    {
      kind: 'date',
      from: -60,
      to: 0,
      meaning: 'day of the purchase',
      training: {
        keys: ['date', 'bought_on'],
        labels: ['Date', 'Bought on'],
        sentences: ['Day of the purchase: {}.', 'The purchase was made: {}.'],
      },
      frozen: {
        keys: ['paid_on'],
        labels: ['Day of payment'],
        sentences: ['We were in the shop {}.', 'The purchase took place {}.'],
      },
    },
    {
      kind: 'date',
      from: 1,
      to: 60,
      meaning: 'last day for a return',
      training: {
        keys: ['return_by', 'returns_until'],
        labels: ['Return by', 'Returns until'],
        sentences: ['Last day for a return: {}.', 'Returns end on this day: {}.'],
      },
      frozen: {
        keys: ['exchange_until'],
        labels: ['Exchange until'],
        sentences: ['It can be given back until {}.', 'The last day to exchange it is {}.'],
      },
    },
    {
      kind: 'time',
      meaning: 'time of the purchase',
      training: {
        keys: ['time', 'bought_at'],
        labels: ['Time', 'Time of purchase'],
        sentences: ['The time of the purchase was {}.', 'Bought at {}.'],
      },
      frozen: {
        keys: ['clock'],
        labels: ['Clock at the till'],
        sentences: ['The clock at the till showed {}.', 'It was paid at {}.'],
      },
    },
    {
      kind: 'boolean',
      meaning: 'whether it was paid by card',
      training: {
        keys: ['card', 'paid_by_card'],
        labels: ['Card', 'Paid by card'],
        sentences: [
          ['It was paid by card.', 'It was not paid by card.'],
          ['Payment was by card.', 'Payment was in cash.'],
        ],
      },
      frozen: {
        keys: ['cashless'],
        labels: ['Card used'],
        sentences: [
          ['The card was used to pay.', 'Coins and notes were used to pay.'],
          ['We held the card to the till.', 'We left the card at home and paid cash.'],
        ],
      },
    },
    currencyRole(['currency'], ['currency_code']),
  ],
};
