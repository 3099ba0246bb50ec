import { Type } from 'typebox';
import { id, nullable, named, object, timestamp } from '../../../../shared/contract/schema-kinds.ts';
import { name, representation } from '../../../../shared/contract/schemas.ts';
import { resourceOf } from '../rows.ts';

const description = nullable(
  Type.String({
    maxLength: 1024,
    pattern: '^[^\\u0000]*$',
    description: 'what the scope is for',
    examples: ['documents of a customer'],
  }),
);

export const scope = named(
  'Scope',
  object({
    id: id('scope'),
    name,
    representation,
    description,
    createdAt: timestamp('when it was made'),
    updatedAt: timestamp('when it last changed'),
  }),
);

export const scopes = resourceOf('scope', scope, 'scope_not_found');
