// Joins a group and commits an offset as while it rejoins, when it has no member ID.
"use strict";

const { GroupConsumer } = require("no-kafka");

async function main() {
  const [bootstrap, topic] = process.argv.slice(2);
  const consumer = new GroupConsumer({
    connectionString: bootstrap,
    clientId: "no-kafka-group",
    groupId: `${topic}-classic`,
    logger: { logLevel: 0 },
  });
  await consumer.init({ subscriptions: [topic], handler: () => Promise.resolve() });
  consumer.memberId = null;
  try {
    await consumer.commitOffset({ topic, partition: 0, offset: 7 });
  } catch (error) {
    if (error.code !== "RebalanceInProgress") throw error;
  }
}

main().then(
  () => process.exit(0),
  (error) => {
    console.error(String(error));
    process.exit(1);
  },
);
