import { testFaults } from './few-faults.ts';

testFaults('while Redis dies and loses answers, every call is debited once or not at all', [
  'answers of Redis lost after the script ran',
  'kill -9 of redis',
]);
