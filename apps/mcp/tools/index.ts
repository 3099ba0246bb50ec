import type { Tool } from '../tool.ts';
import balance from './balance.ts';
import books from './books.ts';
import explainRefusals from './explain-refusals.ts';
import find from './find.ts';
import listWorkspaces from './list-workspaces.ts';
import refusalsOverTime from './refusals-over-time.ts';
import usage from './usage.ts';

/** Every tool, in the order in which a client lists them. */
export const tools: readonly Tool[] = [find, listWorkspaces, explainRefusals, refusalsOverTime, usage, balance, books];
