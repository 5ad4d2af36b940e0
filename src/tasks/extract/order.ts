import { CURRENCY, role, type DocumentKind } from './document.js';

/** A customer's order. */
export const ORDER: DocumentKind = {
  id: 'order',
  openings: {
    training: ['Hello,', 'Good morning,', 'Dear team,'],
    frozen: ['To whom it may concern,', 'Greetings,'],
  },
  closings: {
    training: ['Thank you.', 'Kind regards.', ''],
    frozen: ['Many thanks in advance.', 'All the best.'],
  },
  roles: [
    role({ kind: 'text', pool: 'people' }, 'who orders', {
      training:
        'customer / ordered_by | Customer / Ordered by | My name is {}. / This is {} writing. / The order is for me, {}.',
      frozen: 'buyer | Buyer | I am {}, the buyer. / Please note my name, {}, as the buyer.',
    }),
    role({ kind: 'text', pool: 'people' }, 'clerk who took the order', {
      training:
        'clerk / taken_by | Clerk / Taken by | Your clerk {} took the order. / I spoke with your clerk {}.',
      frozen:
        'order_desk | Clerk at the order desk | It was noted by your clerk {}. / The clerk who served me was {}.',
    }),
    role({ kind: 'text', pool: 'products' }, 'name of the product', {
      training:
        'product / item | Product / Item | I would like to order the {}. / We want to buy the {}. / The product is the {}.',
      frozen: 'article | Article | We have chosen the {}. / What we need is your {}.',
    }),
    role({ kind: 'text', pool: 'cities' }, 'city of delivery', {
      training:
        'city / deliver_to | City / Deliver to | We live in {}, so send it there. / Deliver it to {}.',
      frozen: 'destination | Destination | The parcel goes to {}. / Our address is in {}.',
    }),
    role({ kind: 'integer', from: 2, to: 40 }, 'how many pieces', {
      training:
        'quantity / pieces | Quantity / Pieces | I need {} pieces. / Please send {} of them. / The quantity is {}.',
      frozen: 'units | Units | We would take {} units. / Make it {} units in all.',
    }),
    role({ kind: 'amount', from: 3, to: 3000 }, 'price of one piece', {
      training:
        'price / price_each | Price each / Price of one | One piece costs {}. / The price is {} each.',
      frozen:
        'unit_price | Unit price | A single one is listed at {}. / You ask {} for a single one.',
    }),
    role({ kind: 'amount', from: 2, to: 60 }, 'cost of shipping', {
      training:
        'shipping / postage | Shipping / Postage | Shipping is {}. / For postage you add {}.',
      frozen: 'freight | Freight | Sending it costs {}. / The freight comes to {}.',
    }),
    role({ kind: 'amount', from: 5, to: 90 }, 'value of the voucher', {
      training: 'voucher | Voucher | I have a voucher worth {}. / Please use my voucher of {}.',
      frozen: 'coupon | Coupon | My coupon is good for {}. / Take the coupon over {} into account.',
    }),
    role({ kind: 'date', from: -60, to: 0 }, 'day of the order', {
      training:
        'ordered / order_date | Ordered / Date of order | The order was made on this day: {}. / Date of the order: {}.',
      frozen: 'placed | Order placed | I placed the order {}. / We ordered {}.',
    }),
    role({ kind: 'date', from: 1, to: 90 }, 'day by which it must arrive', {
      training:
        'due / deliver_by | Due / Deliver by | It must arrive by then: {}. / Last day for delivery: {}.',
      frozen:
        'arrive_by | Must arrive by | The latest arrival is {}. / We count on it at the latest {}.',
    }),
    role({ kind: 'boolean' }, 'whether gift wrapping is wanted', {
      training:
        'gift / gift_wrap | Gift wrapping / As a gift | Please wrap it as a gift. / We want gift wrapping. ' +
        '| No gift wrapping, please. / We do not want gift wrapping.',
      frozen:
        'wrapped | Gift paper | Gift paper would be nice. / It is a gift, so wrap it. ' +
        '| Leave out the gift paper. / It is not a gift, so do not wrap it.',
    }),
    CURRENCY,
  ],
};
