//! A collector of traces.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use prost::Message;

/// A span as it was sent.
#[derive(Debug, Clone)]
pub(crate) struct Traced {
    /// The `service.name` of its process.
    pub(crate) service: String,
    pub(crate) name: String,
    pub(crate) trace: String,
    pub(crate) id: String,
    pub(crate) parent: String,
    pub(crate) attributes: BTreeMap<String, String>,
    /// The names of what happened within it.
    pub(crate) events: Vec<String>,
    /// The traces and spans that it links to.
    pub(crate) links: Vec<(String, String)>,
}

/// Listens on a free port and takes OTLP over HTTP.
pub(crate) struct Collector {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Collector {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let record = Arc::clone(&requests);
        // Ends with the process: a thread that waits for a client holds nobody up.
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let record = Arc::clone(&record);
                thread::spawn(move || answer(stream, &record));
            }
        });
        Self { address, requests }
    }

    /// What `--otlp-endpoint` is to say.
    pub(crate) fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Everything that was sent, as it was.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.requests.lock().unwrap().concat()
    }

    /// The spans that were sent.
    pub(crate) fn spans(&self) -> Vec<Traced> {
        let requests = self.requests.lock().unwrap().clone();
        let decoded = requests.iter().map(|body| ExportTraceServiceRequest::decode(&body[..]).unwrap());
        decoded.flat_map(|request| request.resource_spans).flat_map(of_process).collect()
    }
}

fn of_process(sent: opentelemetry_proto::tonic::trace::v1::ResourceSpans) -> Vec<Traced> {
    let resource = attributes(&sent.resource.unwrap_or_default().attributes);
    let spans = sent.scope_spans.into_iter().flat_map(|scope| scope.spans);
    let traced = spans.map(|span| Traced {
        service: resource["service.name"].clone(),
        name: span.name,
        trace: hex(&span.trace_id),
        id: hex(&span.span_id),
        parent: hex(&span.parent_span_id),
        attributes: attributes(&span.attributes),
        events: span.events.into_iter().map(|event| event.name).collect(),
        links: span.links.iter().map(|link| (hex(&link.trace_id), hex(&link.span_id))).collect(),
    });
    traced.collect()
}

fn attributes(pairs: &[KeyValue]) -> BTreeMap<String, String> {
    let text = |value: &Option<AnyValue>| match value.as_ref().and_then(|value| value.value.as_ref()) {
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::IntValue(number)) => number.to_string(),
        other => format!("{other:?}"),
    };
    pairs.iter().map(|pair| (pair.key.clone(), text(&pair.value))).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Takes the requests of one connection.
fn answer(stream: TcpStream, record: &Mutex<Vec<Vec<u8>>>) {
    let mut reader = BufReader::new(stream);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or_default() == 0 {
            return;
        }
        assert!(line.starts_with("POST /v1/traces "), "{line}");
        let mut length = 0;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            match line.trim_end().to_lowercase().split_once(": ") {
                Some(("content-length", value)) => length = value.parse().unwrap(),
                Some(("content-type", value)) => assert_eq!(value, "application/x-protobuf"),
                Some(_) => {}
                None => break,
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        record.lock().unwrap().push(body);
        if write!(reader.get_mut(), "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").is_err() {
            return;
        }
    }
}
