import { testFaults } from './play.ts';

testFaults('kafka');
