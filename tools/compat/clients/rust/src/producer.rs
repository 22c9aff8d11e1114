//! The producing commands.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rdkafka::client::ClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::error::KafkaError;
use rdkafka::producer::{BaseRecord, DeliveryResult, Producer, ProducerContext, ThreadedProducer};

use crate::client::SOON;
use crate::{key, say, value, Answer, Arguments};

/// Passes on each delivery to the one who waits for it.
pub struct Deliveries;

type Outcome = Result<(), KafkaError>;

impl ClientContext for Deliveries {}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = Box<mpsc::Sender<Outcome>>;

    fn delivery(&self, result: &DeliveryResult<'_>, waiter: Self::DeliveryOpaque) {
        let outcome = result.as_ref().map(|_| ()).map_err(|(e, _)| e.clone());
        // Who no longer waits has given up on it.
        let _ = waiter.send(outcome);
    }
}

type Client = ThreadedProducer<Deliveries>;

pub struct Sender {
    client: Arc<Client>,
}

impl Sender {
    pub fn open(mut config: ClientConfig, a: &Arguments) -> Answer<Sender> {
        config
            .set("compression.type", a.or("codec", "none"))
            .set("acks", a.or("acks", "all"))
            .set("linger.ms", "5");
        config.set(
            "enable.idempotence",
            if a.text("idempotent") == "yes" {
                "true"
            } else {
                "false"
            },
        );
        if a.number("batch") > 0 {
            config.set("batch.num.messages", a.text("batch"));
        }
        Ok(Sender {
            client: Arc::new(config.create_with_context(Deliveries)?),
        })
    }

    pub fn send(&self, a: &Arguments) -> Answer<()> {
        let (first, count) = (a.number("first"), a.number("count"));
        let (waiter, outcomes) = mpsc::channel();
        for n in first..first + count {
            let (k, v) = (key(n), value(n, a.number("size")));
            let mut record = BaseRecord::with_opaque_to(a.text("topic"), Box::new(waiter.clone()))
                .partition(0)
                .key(&k)
                .payload(&v);
            if a.number("timestamp") > 0 {
                record = record.timestamp(a.number("timestamp"));
            }
            self.client.send(record).map_err(|(e, _)| e)?;
        }
        for _ in 0..count {
            outcomes.recv_timeout(SOON)??;
        }
        Ok(())
    }

    pub fn close(self) -> Answer<()> {
        Ok(self.client.flush(SOON)?)
    }
}

/// Sends one record after the other, about every ten milliseconds.
pub struct Stream {
    quit: Arc<AtomicBool>,
    thread: thread::JoinHandle<Result<i64, String>>,
}

impl Stream {
    pub fn start(sender: &Sender, topic: String) -> Stream {
        let quit = Arc::new(AtomicBool::new(false));
        let (client, stop) = (sender.client.clone(), quit.clone());
        let thread = thread::spawn(move || {
            let (waiter, outcomes) = mpsc::channel();
            let mut sent = 0;
            while !stop.load(Ordering::SeqCst) {
                let (k, v) = (key(sent), value(sent, 0));
                let record = BaseRecord::with_opaque_to(&topic, Box::new(waiter.clone()))
                    .key(&k)
                    .payload(&v);
                client.send(record).map_err(|(e, _)| e.to_string())?;
                outcomes
                    .recv_timeout(2 * SOON)
                    .map_err(|e| e.to_string())?
                    .map_err(|e| e.to_string())?;
                say(&format!("acked {sent}"));
                sent += 1;
                thread::sleep(Duration::from_millis(10));
            }
            Ok(sent)
        });
        Stream { quit, thread }
    }

    pub fn stop(self) -> Answer<i64> {
        self.quit.store(true, Ordering::SeqCst);
        Ok(self.thread.join().map_err(|_| "the stream panicked")??)
    }
}

pub fn transact(mut config: ClientConfig, a: &Arguments) -> Answer<String> {
    let limit = Duration::from_secs(20);
    let p: Client = config
        .set("transactional.id", a.text("id"))
        .create_with_context(Deliveries)?;
    p.init_transactions(limit)?;
    p.begin_transaction()?;
    let (waiter, _outcomes) = mpsc::channel();
    let first = a.number("first");
    for n in first..first + a.number("count") {
        let (k, v) = (key(n), value(n, 0));
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis() as i64;
        let record = BaseRecord::with_opaque_to(a.text("topic"), Box::new(waiter.clone()))
            .partition(0)
            .key(&k)
            .payload(&v);
        p.send(record.timestamp(now)).map_err(|(e, _)| e)?;
    }
    p.commit_transaction(limit)?;
    Ok(String::new())
}
