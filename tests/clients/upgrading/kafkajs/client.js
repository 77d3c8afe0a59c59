// One step by KafkaJS, by what its releases have in common.
const { Kafka, logLevel } = require("kafkajs");

const RECORDS = 10;
const PATIENCE = 30000;
const [bootstrap, topic, step] = process.argv.slice(2);

function fail(why) {
  console.error(String(why));
  process.exit(1);
}

function kafka(clientId) {
  return new Kafka({ clientId, brokers: [bootstrap], logLevel: logLevel.NOTHING, retry: { retries: 2 } });
}

async function produce() {
  const producer = kafka("old-producer").producer();
  await producer.connect();
  for (let number = 0; number < RECORDS; number++) {
    await producer.send({ topic, messages: [{ key: "key", value: `record ${number}` }] });
  }
  await producer.disconnect();
}

async function consume() {
  const consumer = kafka("old-consumer").consumer({ groupId: `${topic}-group` });
  await consumer.connect();
  await consumer.subscribe({ topic, fromBeginning: true });
  await new Promise((resolve) => {
    let left = RECORDS;
    consumer.run({ eachMessage: async () => { if (--left === 0) resolve(); } }).catch(fail);
  });
}

setTimeout(() => fail("not done in time"), PATIENCE);
({ produce, consume })[step]().then(() => process.exit(0), fail);
