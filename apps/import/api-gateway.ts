import { booleanOf, given, nameOf, type Of } from './fields.ts';
import type { Read } from './rows.ts';

/** A key of `aws apigateway get-api-keys --include-values`, or a line of the CSV that API Gateway imports and documents. */
export const apiGateway = {
  columns: ['key'],
  // It takes the names of columns in any case.
  isAnyCase: true,
  lists: ['', 'items', 'item'],
  aside: ['createdDate', 'lastUpdatedDate'],
  read(of: Of): Read {
    const key = of('value', 'key');
    if (key === undefined) return { refused: 'it has no value: export again with --include-values' };
    const metadata = { ...given('description', of('description')), ...(of.raw('tags') as object | undefined) };
    return {
      item: {
        name: nameOf(of('name'), 'API Gateway key'),
        key,
        ...given('customerId', of('customerId')),
        ...(Object.keys(metadata).length > 0 && { metadata }),
        enabled: booleanOf('enabled', of('enabled')) ?? true,
      },
      ...given('id', of('id')),
    };
  },
};
