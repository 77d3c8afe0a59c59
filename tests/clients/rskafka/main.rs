//! The workload by rskafka. It has no groups: records are read from both partitions.

use std::collections::BTreeMap;
use std::error::Error;
use std::time::{SystemTime, UNIX_EPOCH};

use rskafka::chrono::{DateTime, Utc};
use rskafka::client::partition::{Compression, PartitionClient, UnknownTopicHandling};
use rskafka::client::{Client, ClientBuilder};
use rskafka::record::Record;

const RECORDS: usize = 50;
const PARTITIONS: i32 = 2;

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

#[tokio::main]
async fn main() -> Outcome {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (bootstrap, topic) = (&arguments[0], &arguments[1]);
    for step in &arguments[2..] {
        match step.as_str() {
            "administer" => administer(bootstrap, topic).await?,
            "produce" => produce(bootstrap, topic).await?,
            "read" => read(bootstrap, topic).await?,
            unknown => return Err(format!("there is no step {unknown}").into()),
        }
    }
    Ok(())
}

async fn connect(bootstrap: &str, id: &str) -> Outcome<Client> {
    Ok(ClientBuilder::new(vec![bootstrap.to_owned()]).client_id(id).build().await?)
}

async fn partition(client: &Client, topic: &str, number: i32) -> Outcome<PartitionClient> {
    Ok(client.partition_client(topic, number, UnknownTopicHandling::Retry).await?)
}

async fn administer(bootstrap: &str, topic: &str) -> Outcome {
    let client = connect(bootstrap, "rskafka-admin").await?;
    client.controller_client()?.create_topic(topic, PARTITIONS, 1, 10_000).await?;
    client.list_topics().await?;
    Ok(())
}

async fn produce(bootstrap: &str, topic: &str) -> Outcome {
    let client = connect(bootstrap, "rskafka-producer").await?;
    for number in 0..RECORDS {
        let to = partition(&client, topic, number as i32 % PARTITIONS).await?;
        let record = Record {
            key: None,
            value: Some(format!("record {number}").into_bytes()),
            headers: BTreeMap::new(),
            timestamp: now(),
        };
        to.produce(vec![record], Compression::NoCompression).await?;
    }
    Ok(())
}

fn now() -> DateTime<Utc> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    DateTime::from_timestamp(since.as_secs() as i64, 0).unwrap_or_default()
}

async fn read(bootstrap: &str, topic: &str) -> Outcome {
    let client = connect(bootstrap, "rskafka-reader").await?;
    let mut read = 0;
    for number in 0..PARTITIONS {
        let from = partition(&client, topic, number).await?;
        read += from.fetch_records(0, 1..1_000_000, 1_000).await?.0.len();
    }
    if read == RECORDS { Ok(()) } else { Err(format!("read {read} records").into()) }
}
