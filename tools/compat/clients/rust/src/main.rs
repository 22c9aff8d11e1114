//! rdkafka, the Rust client on librdkafka. The commands are in ../../README.md.

mod client;
mod consumer;
mod producer;

use std::collections::HashMap;
use std::io::{BufRead, Write};

pub type Failure = Box<dyn std::error::Error>;
pub type Answer<T> = Result<T, Failure>;

/// The name=value pairs of a command.
pub struct Arguments(HashMap<String, String>);

impl Arguments {
    pub fn text(&self, name: &str) -> &str {
        self.0.get(name).map_or("", |v| v.as_str())
    }

    pub fn or<'a>(&'a self, name: &str, otherwise: &'a str) -> &'a str {
        self.0.get(name).map_or(otherwise, |v| v.as_str())
    }

    pub fn number(&self, name: &str) -> i64 {
        self.text(name).parse().unwrap_or(0)
    }
}

/// A place in a partition.
pub enum Position {
    Start,
    End,
    Offset(i64),
    Timestamp(i64),
    Shift(i64),
}

pub fn position(text: &str) -> Answer<Position> {
    let (form, value) = text.split_once(':').unwrap_or((text, "0"));
    let n: i64 = value.parse()?;
    match form {
        "start" => Ok(Position::Start),
        "end" => Ok(Position::End),
        "offset" => Ok(Position::Offset(n)),
        "timestamp" => Ok(Position::Timestamp(n)),
        "shift" => Ok(Position::Shift(n)),
        _ => Err(format!("unknown position {form}").into()),
    }
}

/// A line on standard output, whole whichever thread writes it.
pub fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    // When the runner is gone, nobody is left to tell.
    let _ = writeln!(out, "{line}").and_then(|_| out.flush());
}

pub fn key(n: i64) -> String {
    format!("k{n:06}")
}

pub fn value(n: i64, size: i64) -> String {
    let head = format!("v{n:06}-");
    let filler = if size == 0 {
        200
    } else {
        size as usize - head.len()
    };
    head + &"x".repeat(filler)
}

/// Reports a record that a consumer handed over.
pub fn got(partition: i32, offset: i64, key_bytes: &[u8], value_bytes: &[u8]) {
    let number = std::str::from_utf8(key_bytes)
        .ok()
        .and_then(|k| k.strip_prefix('k'))
        .and_then(|n| n.parse::<i64>().ok());
    match number {
        Some(n) if value(n, 0).as_bytes() == value_bytes => {
            say(&format!("got {partition} {offset} {n}"))
        }
        _ => say(&format!(
            "got {partition} {offset} ?{:.20}",
            String::from_utf8_lossy(value_bytes)
        )),
    }
}

/// The Kafka error code that an error shows, or "-".
fn code_of(e: &Failure) -> String {
    let code = match e.downcast_ref::<rdkafka::error::KafkaError>() {
        Some(e) => e.rdkafka_error_code(),
        None => e
            .downcast_ref::<rdkafka::types::RDKafkaErrorCode>()
            .copied(),
    };
    shown(code.map(|c| c as i32))
}

/// Kafka's code for one of librdkafka's, or "-".
pub fn shown(code: Option<i32>) -> String {
    match code {
        // Its own name for it, when the metadata come while it takes the record.
        Some(c) if c == rdkafka::types::RDKafkaErrorCode::UnknownTopic as i32 => "3".to_string(),
        Some(c) if c >= -1 => c.to_string(),
        _ => "-".to_string(),
    }
}

fn main() {
    let mut args = std::env::args().skip_while(|a| a != "--brokers");
    let Some(brokers) = args.nth(1) else {
        eprintln!("usage: --brokers host:port");
        std::process::exit(2);
    };
    let mut session = client::Session::new(brokers);
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let mut words = line.split(' ');
        let verb = words.next().unwrap_or("").to_string();
        let pairs = words
            .filter_map(|w| w.split_once('='))
            .map(|(k, v)| (k.to_string(), v.to_string()));
        match session.command(&verb, &Arguments(pairs.collect())) {
            Ok(answer) => say(format!("ok {answer}").trim_end()),
            Err(e) => say(&format!(
                "error {} {}",
                code_of(&e),
                e.to_string().replace('\n', " ")
            )),
        }
    }
    // Without leaving groups.
    std::process::exit(0);
}
