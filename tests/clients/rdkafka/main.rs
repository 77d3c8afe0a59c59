//! The workload by rdkafka, the crate around librdkafka.

use std::error::Error;
use std::time::Duration;

use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{CommitMode, Consumer, StreamConsumer};
use rdkafka::producer::{FutureProducer, FutureRecord, Producer};
use rdkafka::util::Timeout;

const RECORDS: usize = 50;
const PATIENCE: Duration = Duration::from_secs(30);

type Outcome = Result<(), Box<dyn Error>>;

#[tokio::main]
async fn main() -> Outcome {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (bootstrap, topic) = (&arguments[0], &arguments[1]);
    for step in &arguments[2..] {
        match step.as_str() {
            "administer" => administer(bootstrap, topic).await?,
            "produce" => produce(bootstrap, topic).await?,
            "consume" => consume(bootstrap, topic).await?,
            "transact" => transact(bootstrap, topic).await?,
            unknown => return Err(format!("there is no step {unknown}").into()),
        }
    }
    Ok(())
}

fn settings(bootstrap: &str, id: &str) -> ClientConfig {
    let mut settings = ClientConfig::new();
    settings.set("bootstrap.servers", bootstrap).set("client.id", id);
    settings
}

async fn administer(bootstrap: &str, topic: &str) -> Outcome {
    let admin: AdminClient<DefaultClientContext> = settings(bootstrap, "rdkafka-admin").create()?;
    let wanted = NewTopic::new(topic, 2, TopicReplication::Fixed(1));
    for created in admin.create_topics(&[wanted], &AdminOptions::new()).await? {
        created.map_err(|(name, error)| format!("{name}: {error}"))?;
    }
    admin.inner().fetch_metadata(None, PATIENCE)?;
    admin.inner().fetch_group_list(None, PATIENCE)?;
    Ok(())
}

async fn produce(bootstrap: &str, topic: &str) -> Outcome {
    let producer: FutureProducer = settings(bootstrap, "rdkafka-producer").create()?;
    send(&producer, topic, RECORDS).await
}

async fn send(producer: &FutureProducer, topic: &str, records: usize) -> Outcome {
    for number in 0..records {
        let text = format!("record {number}");
        let record: FutureRecord<str, str> = FutureRecord::to(topic).payload(&text);
        producer.send(record, Timeout::After(PATIENCE)).await.map_err(|(error, _)| error)?;
    }
    Ok(())
}

async fn consume(bootstrap: &str, topic: &str) -> Outcome {
    let consumer: StreamConsumer = settings(bootstrap, "rdkafka-classic")
        .set("group.id", format!("{topic}-classic"))
        .set("auto.offset.reset", "earliest")
        .create()?;
    consumer.subscribe(&[topic])?;
    for _ in 0..RECORDS {
        consumer.recv().await?;
    }
    consumer.commit_consumer_state(CommitMode::Sync)?;
    consumer.unsubscribe();
    Ok(())
}

async fn transact(bootstrap: &str, topic: &str) -> Outcome {
    let producer: FutureProducer =
        settings(bootstrap, "rdkafka-transactional").set("transactional.id", topic).create()?;
    producer.init_transactions(PATIENCE)?;
    producer.begin_transaction()?;
    send(&producer, topic, 10).await?;
    producer.commit_transaction(PATIENCE)?;
    Ok(())
}
