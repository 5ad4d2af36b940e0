import { currencyRole, type DocumentKind } from './document.js';

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
    {
      kind: 'text',
      pool: 'people',
      meaning: 'who orders',
      training: {
        keys: ['customer', 'ordered_by'],
        labels: ['Customer', 'Ordered by'],
        sentences: ['My name is {}.', 'This is {} writing.', 'The order is for me, {}.'],
      },
      frozen: {
        keys: ['buyer'],
        labels: ['Buyer'],
        sentences: ['I am {}, the buyer.', 'Please note my name, {}, as the buyer.'],
      },
    },
    {
      kind: 'text',
      pool: 'people',
      meaning: 'clerk who took the order',
      training: {
        keys: ['clerk', 'taken_by'],
        labels: ['Clerk', 'Taken by'],
        sentences: ['Your clerk {} took the order.', 'I spoke with your clerk {}.'],
      },
      frozen: {
        keys: ['order_desk'],
        labels: ['Clerk at the order desk'],
        sentences: ['It was noted by your clerk {}.', 'The clerk who served me was {}.'],
      },
    },
    {
      kind: 'text',
      pool: 'products',
      meaning: 'name of the product',
      training: {
        keys: ['product', 'item'],
        labels: ['Product', 'Item'],
        sentences: [
          'I would like to order the {}.',
          'We want to buy the {}.',
          'The product is the {}.',
        ],
      },
      frozen: {
        keys: ['article'],
        labels: ['Article'],
        sentences: ['We have chosen the {}.', 'What we need is your {}.'],
      },
    },
    {
      kind: 'text',
      pool: 'cities',
      meaning: 'city of delivery',
      training: {
        keys: ['city', 'deliver_to'],
        labels: ['City', 'Deliver to'],
        sentences: ['We live in {}, so send it there.', 'Deliver it to {}.'],
      },
      frozen: {
        keys: ['destination'],
        labels: ['Destination'],
        sentences: ['The parcel goes to {}.', 'Our address is in {}.'],
      },
    },
    {
      kind: 'integer',
      from: 2,
      to: 40,
      meaning: 'how many pieces',
      training: {
        keys: ['quantity', 'pieces'],
        labels: ['Quantity', 'Pieces'],
        sentences: ['I need {} pieces.', 'Please send {} of them.', 'The quantity is {}.'],
      },
      frozen: {
        keys: ['units'],
        labels: ['Units'],
        sentences: ['We would take {} units.', 'Make it {} units in all.'],
      },
    },
    {
      kind: 'amount',
      from: 3,
      to: 3000,
      meaning: 'price of one piece',
      training: {
        keys: ['price', 'price_each'],
        labels: ['Price each', 'Price of one'],
        sentences: ['One piece costs {}.', 'The price is {} each.'],
      },
      frozen: {
        keys: ['unit_price'],
        labels: ['Unit price'],
        sentences: ['A single one is listed at {}.', 'You ask {} for a single one.'],
      },
    },
    {
      kind: 'amount',
      from: 2,
      to: 60,
      meaning: 'cost of shipping',
      training: {
        keys: ['shipping', 'postage'],
        labels: ['Shipping', 'Postage'],
        sentences: ['Shipping is {}.', 'For postage you add {}.'],
      },
      frozen: {
        keys: ['freight'],
        labels: ['Freight'],
        sentences: ['Sending it costs {}.', 'The freight comes to {}.'],
      },
    },
    {
      kind: 'amount',
      from: 5,
      to: 90,
      meaning: 'value of the voucher',
      training: {
        keys: ['voucher'],
        labels: ['Voucher'],
        sentences: ['I have a voucher worth {}.', 'Please use my voucher of {}.'],
      },
      frozen: {
        keys: ['coupon'],
        labels: ['Coupon'],
        sentences: ['My coupon is good for {}.', 'Take the coupon over {} into account.'],
      },
    },
    {
      kind: 'date',
      from: -60,
      to: 0,
      meaning: 'day of the order',
      training: {
        keys: ['ordered', 'order_date'],
        labels: ['Ordered', 'Date of order'],
        sentences: ['The order was made on this day: {}.', 'Date of the order: {}.'],
      },
      frozen: {
        keys: ['placed'],
        labels: ['Order placed'],
        sentences: ['I placed the order {}.', 'We ordered {}.'],
      },
    },
    {
      kind: 'date',
      from: 1,
      to: 90,
      meaning: 'day by which it must arrive',
      training: {
        keys: ['due', 'deliver_by'],
        labels: ['Due', 'Deliver by'],
        sentences: ['It must arrive by then: {}.', 'Last day for delivery: {}.'],
      },
      frozen: {
        keys: ['arrive_by'],
        labels: ['Must arrive by'],
        sentences: ['The latest arrival is {}.', 'We count on it at the latest {}.'],
      },
    },
    {
      kind: 'boolean',
      meaning: 'whether gift wrapping is wanted',
      training: {
        keys: ['gift', 'gift_wrap'],
        labels: ['Gift wrapping', 'As a gift'],
        sentences: [
          ['Please wrap it as a gift.', 'No gift wrapping, please.'],
          ['We want gift wrapping.', 'We do not want gift wrapping.'],
        ],
      },
      frozen: {
        keys: ['wrapped'],
        labels: ['Gift paper'],
        sentences: [
          ['Gift paper would be nice.', 'Leave out the gift paper.'],
          ['It is a gift, so wrap it.', 'It is not a gift, so do not wrap it.'],
        ],
      },
    },
    currencyRole(['currency'], ['currency_code']),
  ],
};
