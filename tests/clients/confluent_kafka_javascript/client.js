// The workload by @confluentinc/kafka-javascript, in its KafkaJS interface.
const { Kafka, logLevel } = require("@confluentinc/kafka-javascript").KafkaJS;

const RECORDS = 50;
const [bootstrap, topic, ...steps] = process.argv.slice(2);

function kafka(clientId) {
  return new Kafka({ kafkaJS: { clientId, brokers: [bootstrap], logLevel: logLevel.NOTHING } });
}

async function administer() {
  const admin = kafka("kafka-javascript-admin").admin();
  await admin.connect();
  await admin.createTopics({ topics: [{ topic, numPartitions: 2, replicationFactor: 1 }] });
  await admin.listTopics();
  await admin.disconnect();
}

async function produce() {
  const producer = kafka("kafka-javascript-producer").producer();
  await producer.connect();
  for (let number = 0; number < RECORDS; number++) {
    await producer.send({ topic, messages: [{ value: `record ${number}` }] });
  }
  await producer.disconnect();
}

async function transact() {
  const settings = { kafkaJS: { transactionalId: topic, maxInFlightRequests: 1, idempotent: true } };
  const producer = kafka("kafka-javascript-transactional").producer(settings);
  await producer.connect();
  const transaction = await producer.transaction();
  for (let number = 0; number < 10; number++) {
    await transaction.send({ topic, messages: [{ value: `record ${number}` }] });
  }
  await transaction.commit();
  await producer.disconnect();
}

async function consume() {
  const consumer = kafka("kafka-javascript-classic").consumer({ kafkaJS: { groupId: `${topic}-classic`, fromBeginning: true } });
  await consumer.connect();
  await consumer.subscribe({ topic });
  await new Promise((resolve) => {
    let left = RECORDS;
    consumer.run({ eachMessage: async () => { if (--left === 0) resolve(); } });
  });
  await consumer.disconnect();
}

async function main() {
  for (const step of steps) {
    await { administer, produce, transact, consume }[step]();
  }
}

main().then(() => process.exit(0), (error) => { console.error(error.message); process.exit(1); });
