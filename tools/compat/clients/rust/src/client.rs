//! The admin commands, and the one producer and the one consumer of the process.

use std::time::Duration;

use futures_executor::block_on;
use rdkafka::admin::{AdminClient, AdminOptions, NewPartitions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{CommitMode, Consumer};
use rdkafka::types::RDKafkaErrorCode;
use rdkafka::{Offset, TopicPartitionList};

use crate::consumer::{place, Reader};
use crate::producer::{transact, Sender, Stream};
use crate::{position, Answer, Arguments};

pub const SOON: Duration = Duration::from_secs(30);

pub struct Session {
    brokers: String,
    producer: Option<Sender>,
    stream: Option<Stream>,
    consumer: Option<Reader>,
}

/// The outcome for the one topic or group that was asked for.
fn only(results: Vec<Result<String, (String, RDKafkaErrorCode)>>) -> Answer<String> {
    match results.into_iter().next() {
        Some(Ok(_)) => Ok(String::new()),
        Some(Err((_, code))) => Err(Box::new(code)),
        None => Err("no result".into()),
    }
}

impl Session {
    pub fn new(brokers: String) -> Session {
        Session {
            brokers,
            producer: None,
            stream: None,
            consumer: None,
        }
    }

    fn config(&self) -> ClientConfig {
        let mut c = ClientConfig::new();
        c.set("bootstrap.servers", &self.brokers);
        c
    }

    fn admin(&self) -> Answer<AdminClient<DefaultClientContext>> {
        Ok(self.config().create()?)
    }

    pub fn command(&mut self, verb: &str, a: &Arguments) -> Answer<String> {
        let options = AdminOptions::new()
            .request_timeout(Some(SOON))
            .operation_timeout(Some(SOON));
        match verb {
            "create" => {
                let mut t = NewTopic::new(
                    a.text("topic"),
                    a.number("partitions") as i32,
                    TopicReplication::Fixed(1),
                );
                for (k, v) in a
                    .text("configs")
                    .split(',')
                    .filter_map(|kv| kv.split_once(':'))
                {
                    t = t.set(k, v);
                }
                only(block_on(self.admin()?.create_topics(&[t], &options))?)
            }
            "partitions" => {
                let m = self
                    .admin()?
                    .inner()
                    .fetch_metadata(Some(a.text("topic")), SOON)?;
                Ok(format!("count={}", m.topics()[0].partitions().len()))
            }
            "delete" => only(block_on(
                self.admin()?.delete_topics(&[a.text("topic")], &options),
            )?),
            "grow" => {
                let p = NewPartitions::new(a.text("topic"), a.number("partitions") as usize);
                only(block_on(self.admin()?.create_partitions(&[p], &options))?)
            }
            "trim" => {
                let mut list = TopicPartitionList::new();
                list.add_partition_offset(
                    a.text("topic"),
                    a.number("partition") as i32,
                    Offset::Offset(a.number("offset")),
                )?;
                let done = block_on(self.admin()?.delete_records(&list, &options))?;
                let p = &done.elements()[0];
                p.error()?;
                Ok(format!("low={}", p.offset().to_raw().unwrap_or(-1)))
            }
            "delete-group" => only(block_on(
                self.admin()?.delete_groups(&[a.text("group")], &options),
            )?),
            "reset" => self.reset(a),
            "transact" => transact(self.config(), a),
            _ => self.data(verb, a),
        }
    }

    /// There is no admin function for it: a consumer of the group commits.
    fn reset(&self, a: &Arguments) -> Answer<String> {
        let consumer: rdkafka::consumer::BaseConsumer =
            self.config().set("group.id", a.text("group")).create()?;
        let partition = a.number("partition") as i32;
        let at = place(
            &consumer,
            a.text("topic"),
            partition,
            &position(a.text("to"))?,
        )?;
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(a.text("topic"), partition, Offset::Offset(at))?;
        consumer.commit(&list, CommitMode::Sync)?;
        Ok(String::new())
    }

    fn data(&mut self, verb: &str, a: &Arguments) -> Answer<String> {
        match verb {
            "producer" => self.producer = Some(Sender::open(self.config(), a)?),
            "send" => self.producer.as_ref().ok_or("no producer")?.send(a)?,
            "stream" => {
                let sender = Sender::open(self.config(), a)?;
                self.stream = Some(Stream::start(&sender, a.text("topic").to_string()));
                self.producer = Some(sender);
            }
            "stop" => {
                return Ok(format!(
                    "sent={}",
                    self.stream.take().ok_or("no stream")?.stop()?
                ))
            }
            "close-producer" => self.producer.take().ok_or("no producer")?.close()?,
            "assign" => self.consumer = Some(Reader::assign(self.config(), a)?),
            "join" => self.consumer = Some(Reader::join(self.config(), a)?),
            "commit" => self.consumer.as_ref().ok_or("no consumer")?.commit()?,
            "leave" => self.consumer.take().ok_or("no consumer")?.leave()?,
            _ => return Err(format!("unknown command {verb}").into()),
        }
        Ok(String::new())
    }
}
