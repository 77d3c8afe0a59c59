// One step by kafka-node.
const kafka = require("kafka-node");

const RECORDS = 10;
const PATIENCE = 30000;
const [kafkaHost, topic, step] = process.argv.slice(2);

function fail(why) {
  console.error(why && why.message ? why.message : String(why));
  process.exit(1);
}

function produce() {
  const client = new kafka.KafkaClient({ kafkaHost, clientId: "old-producer" });
  const producer = new kafka.Producer(client);
  const send = (number) => {
    if (number === RECORDS) process.exit(0);
    producer.send([{ topic, messages: `record ${number}` }], (error) => (error ? fail(error) : send(number + 1)));
  };
  client.on("error", fail);
  producer.on("error", fail);
  producer.on("ready", () => send(0));
}

function consume() {
  const settings = { kafkaHost, id: "old-consumer", groupId: `${topic}-group`, fromOffset: "earliest" };
  const consumer = new kafka.ConsumerGroup(settings, [topic]);
  let left = RECORDS;
  consumer.on("error", fail);
  consumer.on("message", () => { if (--left === 0) process.exit(0); });
}

setTimeout(() => fail("not done in time"), PATIENCE);
({ produce, consume })[step]();
