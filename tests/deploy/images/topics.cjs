// kafka-topics.sh --bootstrap-server ADDRESS --command-config FILE --list
const { readFileSync } = require('node:fs');
const { parseArgs } = require('node:util');
const { Kafka, logLevel } = require('kafkajs');

const text = { type: 'string' };
const { values } = parseArgs({
  options: { 'bootstrap-server': text, 'command-config': text, list: { type: 'boolean' } },
});
const login = readFileSync(values['command-config'], 'utf8');
const [, username, password] = /username="([^"]*)" password="([^"]*)"/.exec(login);
const sasl = { mechanism: 'plain', username, password };
const admin = new Kafka({
  brokers: [values['bootstrap-server']],
  sasl,
  logLevel: logLevel.NOTHING,
  retry: { retries: 0 },
}).admin();

async function main() {
  await admin.connect();
  console.log((await admin.listTopics()).join('\n'));
  await admin.disconnect();
}

main().catch((error) => {
  console.error(error.message);
  process.exit(1);
});
