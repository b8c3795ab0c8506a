// The head of a column by which a table can be sorted: a button, and the sign of its order.

import type { ReactElement } from 'react';

export type Order = 'ascending' | 'descending';

const SIGNS: Record<Order, string> = { ascending: ' ▴', descending: ' ▾' };

/** order: undefined while the table is sorted by another column. */
export function SortHead({
  title,
  says,
  order,
  sort,
  ...data
}: {
  title: string;
  says?: string;
  order: Order | undefined;
  sort: () => void;
  'data-roomy'?: string;
  'data-number'?: string;
}): ReactElement {
  return (
    <th scope="col" aria-sort={order} {...data}>
      <button type="button" title={says} onClick={sort}>
        {title}
        <span aria-hidden="true">{order ? SIGNS[order] : ''}</span>
      </button>
    </th>
  );
}
