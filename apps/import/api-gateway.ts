import { booleanOf, given, nameOf, othersIn, reader, textOf } from './fields.ts';
import type { Found } from './rows.ts';

/** A key of `aws apigateway get-api-keys --include-values`. */
export function ofApiGateway(fields: Record<string, unknown>): Found {
  const { id, value, name, customerId, description, tags } = fields;
  if (textOf(value) === undefined) return { refused: 'it has no value: export again with --include-values', lost: [] };
  const metadata = { ...given('description', textOf(description)), ...(tags as object | undefined) };
  return {
    item: {
      name: nameOf(name, 'API Gateway key'),
      key: value,
      ...given('customerId', textOf(customerId)),
      ...(Object.keys(metadata).length > 0 && { metadata }),
      enabled: fields['enabled'] !== false,
    },
    ...given('id', textOf(id)),
    lost: othersIn(fields, known),
  };
}

const known = ['id', 'value', 'name', 'customerId', 'description', 'tags', 'enabled', 'createdDate', 'lastUpdatedDate'];

/** A line of the CSV that API Gateway imports and documents; it takes the names of columns in any case. */
export function ofApiGatewayCsv(record: Record<string, string>): Found {
  const fields = Object.fromEntries(Object.entries(record).map(([name, value]) => [name.toLowerCase(), value]));
  const of = reader(fields);
  return {
    item: {
      name: nameOf(of('name'), 'API Gateway key'),
      key: of('key') ?? '',
      ...(of('description') && { metadata: { description: of('description') } }),
      enabled: booleanOf('enabled', of('enabled')) ?? true,
    },
    lost: othersIn(fields, ['name', 'key', 'description', 'enabled']),
  };
}
