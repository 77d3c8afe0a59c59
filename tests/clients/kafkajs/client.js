// The workload by KafkaJS.
const { readFileSync } = require("fs");
const { Kafka, logLevel } = require("kafkajs");

const RECORDS = 50;
const [bootstrap, topic, ...steps] = process.argv.slice(2);

function kafka(clientId) {
  return new Kafka({ clientId, brokers: [bootstrap], logLevel: logLevel.NOTHING, ...security() });
}

function security() {
  const { CLIENT_USER: username, CLIENT_PASSWORD: password, CLIENT_CA: authority } = process.env;
  return {
    ...(username && { sasl: { mechanism: "plain", username, password } }),
    ...(authority && { ssl: { ca: [readFileSync(authority, "utf-8")] } }),
  };
}

async function administer() {
  const admin = kafka("kafkajs-admin").admin();
  await admin.connect();
  await admin.createTopics({ topics: [{ topic, numPartitions: 2, replicationFactor: 1 }] });
  await admin.listTopics();
  await admin.describeCluster();
  await admin.disconnect();
}

async function produce() {
  const producer = kafka("kafkajs-producer").producer();
  await producer.connect();
  for (let number = 0; number < RECORDS; number++) {
    await producer.send({ topic, messages: [{ value: `record ${number}` }] });
  }
  await producer.disconnect();
}

async function transact() {
  const settings = { transactionalId: topic, maxInFlightRequests: 1, idempotent: true };
  const producer = kafka("kafkajs-transactional").producer(settings);
  await producer.connect();
  const transaction = await producer.transaction();
  for (let number = 0; number < 10; number++) {
    await transaction.send({ topic, messages: [{ value: `record ${number}` }] });
  }
  await transaction.commit();
  await producer.disconnect();
}

async function consume() {
  const consumer = kafka("kafkajs-classic").consumer({ groupId: `${topic}-classic` });
  await consumer.connect();
  await consumer.subscribe({ topic, fromBeginning: true });
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
