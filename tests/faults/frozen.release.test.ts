import { testFaults } from './few-faults.ts';

testFaults('while Redis freezes, every call is debited once or not at all', ['redis frozen']);
