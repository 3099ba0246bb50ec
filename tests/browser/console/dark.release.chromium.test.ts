import { testPages } from './helpers/look.ts';

testPages('dark');
