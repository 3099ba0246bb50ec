import { accounts } from './list/accounts.ts';
import { api } from './list/api.ts';
import { books } from './list/books.ts';
import { clients } from './list/clients.ts';
import { routes } from './list/routes.ts';
import { shared } from './list/shared.ts';
import { stack } from './list/stack.ts';
import { verify } from './list/verify.ts';

// One after the other of each list, so that the six of a day are of several parts.
const lists = [verify, accounts, books, routes, api, shared, clients, stack];
const longest = Math.max(...lists.map((list) => list.length));

/** All faults that `make mutants` tries. */
export const mutants = Array.from({ length: longest }, (_, i) => lists.flatMap((list) => list[i] ?? [])).flat();
