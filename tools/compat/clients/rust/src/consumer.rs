//! The consuming commands.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rdkafka::client::ClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, ConsumerContext, Rebalance};
use rdkafka::error::KafkaResult;
use rdkafka::types::RDKafkaErrorCode;
use rdkafka::{Message, Offset, TopicPartitionList};

use crate::client::SOON;
use crate::{got, position, say, shown, Answer, Arguments, Position};

/// Codes of a commit by a member that has to join first, again perhaps.
const NOT_IN_GROUP: [RDKafkaErrorCode; 3] = [
    RDKafkaErrorCode::IllegalGeneration,
    RDKafkaErrorCode::UnknownMemberId,
    RDKafkaErrorCode::RebalanceInProgress,
];

/// What a member holds and how far it has got, shared with its poller.
#[derive(Default)]
pub struct Held {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    partitions: BTreeSet<i32>,
    positions: HashMap<(String, i32), i64>,
}

impl ClientContext for Held {}

impl ConsumerContext for Held {
    fn pre_rebalance(&self, _: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        if let Rebalance::Revoke(list) = rebalance {
            self.change(list, |s, topic, p| {
                s.partitions.remove(&p);
                s.positions.remove(&(topic.to_string(), p));
            });
        }
    }

    fn post_rebalance(&self, _: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        if let Rebalance::Assign(list) = rebalance {
            self.change(list, |s, _, p| {
                s.partitions.insert(p);
            });
        }
    }
}

impl Held {
    fn change(&self, list: &TopicPartitionList, f: impl Fn(&mut State, &str, i32)) {
        let mut s = self.state.lock().unwrap();
        for p in list.elements() {
            f(&mut s, p.topic(), p.partition());
        }
        let names: Vec<String> = s.partitions.iter().map(|p| p.to_string()).collect();
        say(&format!("assigned {}", names.join(",")));
    }
}

/// A consumer that a thread polls until it is left.
pub struct Reader {
    consumer: Arc<BaseConsumer<Held>>,
    quit: Arc<AtomicBool>,
    thread: thread::JoinHandle<()>,
}

impl Reader {
    fn start(consumer: BaseConsumer<Held>) -> Reader {
        let (consumer, quit) = (Arc::new(consumer), Arc::new(AtomicBool::new(false)));
        let (polled, stop) = (consumer.clone(), quit.clone());
        let thread = thread::spawn(move || {
            while !stop.load(Ordering::SeqCst) {
                match polled.poll(Duration::from_millis(50)) {
                    Some(Ok(m)) => {
                        let mut s = polled.context().state.lock().unwrap();
                        s.positions
                            .insert((m.topic().to_string(), m.partition()), m.offset() + 1);
                        drop(s);
                        got(
                            m.partition(),
                            m.offset(),
                            m.key().unwrap_or_default(),
                            m.payload().unwrap_or_default(),
                        );
                    }
                    Some(Err(e)) => {
                        eprintln!("{e}");
                        let fatal = polled.client().fatal_error().map(|(code, _)| code);
                        let code = fatal.or(e.rdkafka_error_code()).map(|c| c as i32);
                        say(&format!("fault {}", shown(code)));
                    }
                    None => {}
                }
            }
        });
        Reader {
            consumer,
            quit,
            thread,
        }
    }

    pub fn assign(mut config: ClientConfig, a: &Arguments) -> Answer<Reader> {
        config
            .set("group.id", "unused")
            .set("enable.auto.commit", "false")
            .set("fetch.wait.max.ms", "200");
        let consumer: BaseConsumer<Held> = config.create_with_context(Held::default())?;
        let at = place(&consumer, a.text("topic"), 0, &position(a.text("from"))?)?;
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(a.text("topic"), 0, Offset::Offset(at))?;
        consumer.assign(&list)?;
        Ok(Reader::start(consumer))
    }

    pub fn join(mut config: ClientConfig, a: &Arguments) -> Answer<Reader> {
        config
            .set("group.id", a.text("group"))
            .set("enable.auto.commit", "false")
            .set("fetch.wait.max.ms", "200");
        config
            .set("session.timeout.ms", a.or("session", "6000"))
            .set("heartbeat.interval.ms", "500");
        config.set("topic.metadata.refresh.interval.ms", "1000");
        config.set(
            "auto.offset.reset",
            if a.text("reset") == "end" {
                "latest"
            } else {
                "earliest"
            },
        );
        if a.or("assignor", "default") != "default" {
            config.set("partition.assignment.strategy", a.text("assignor"));
        }
        if !a.text("static").is_empty() {
            config.set("group.instance.id", a.text("static"));
        }
        let consumer: BaseConsumer<Held> = config.create_with_context(Held::default())?;
        consumer.subscribe(&[a.text("topic")])?;
        Ok(Reader::start(consumer))
    }

    /// Repeats it until the member is in the group.
    pub fn commit(&self) -> Answer<()> {
        let end = Instant::now() + Duration::from_secs(20);
        loop {
            match self.commit_once() {
                Err(e)
                    if matches!(e.rdkafka_error_code(), Some(code) if NOT_IN_GROUP.contains(&code))
                        && Instant::now() < end =>
                {
                    thread::sleep(Duration::from_millis(100));
                }
                outcome => return Ok(outcome?),
            }
        }
    }

    fn commit_once(&self) -> KafkaResult<()> {
        let mut list = TopicPartitionList::new();
        let state = self.consumer.context().state.lock().unwrap();
        for ((topic, partition), offset) in &state.positions {
            list.add_partition_offset(topic, *partition, Offset::Offset(*offset))?;
        }
        drop(state); // a rebalance takes it
        if list.count() > 0 {
            self.consumer.commit(&list, CommitMode::Sync)?;
        }
        Ok(())
    }

    pub fn leave(self) -> Answer<()> {
        self.quit.store(true, Ordering::SeqCst);
        self.thread.join().map_err(|_| "the poller panicked")?;
        drop(self.consumer); // closes it
        Ok(())
    }
}

/// The offset of a position; Shift is relative to the group's.
pub fn place<C: ConsumerContext>(
    consumer: &BaseConsumer<C>,
    topic: &str,
    partition: i32,
    at: &Position,
) -> Answer<i64> {
    let mut list = TopicPartitionList::new();
    match at {
        Position::Offset(n) => return Ok(*n),
        Position::Start => return Ok(consumer.fetch_watermarks(topic, partition, SOON)?.0),
        Position::End => return Ok(consumer.fetch_watermarks(topic, partition, SOON)?.1),
        Position::Timestamp(ms) => {
            list.add_partition_offset(topic, partition, Offset::Offset(*ms))?;
            list = consumer.offsets_for_times(list, SOON)?;
        }
        Position::Shift(_) => {
            list.add_partition(topic, partition);
            list = consumer.committed_offsets(list, SOON)?;
        }
    }
    let found = list.elements()[0].offset().to_raw().ok_or("no offset")?;
    Ok(if let Position::Shift(n) = at {
        found + n
    } else {
        found
    })
}
