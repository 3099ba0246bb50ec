import { testFaults } from './play.ts';

testFaults('redis');
