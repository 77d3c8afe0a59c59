// Lists the groups of the cluster.
"use strict";

const { Kafka, logLevel } = require("kafkajs");

async function main() {
  const [bootstrap] = process.argv.slice(2);
  const kafka = new Kafka({
    brokers: [bootstrap],
    clientId: "kafkajs-admin",
    logLevel: logLevel.NOTHING,
    requestTimeout: 5000,
    retry: { retries: 1 },
  });
  const admin = kafka.admin();
  await admin.connect();
  try {
    await admin.listGroups();
  } finally {
    await admin.disconnect();
  }
}

main().catch((error) => {
  console.error(String(error));
  process.exit(1);
});
