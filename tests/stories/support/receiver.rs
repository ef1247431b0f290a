//! A receiver of webhooks.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::Value;

/// What came with one request.
#[derive(Debug, Clone)]
pub(crate) struct Heard {
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Value,
}

impl Heard {
    /// The header of this lower-case name.
    pub(crate) fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(header, _)| header == name);
        found.map(|(_, value)| value.as_str()).unwrap_or_else(|| panic!("no {name} among {:?}", self.headers))
    }
}

/// Listens on a free port and answers by path: `/hang` never, `/NUMBER/…` with that status.
pub(crate) struct Receiver {
    address: SocketAddr,
    heard: Arc<Mutex<Vec<Heard>>>,
}

impl Receiver {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let heard = Arc::new(Mutex::new(Vec::new()));
        let record = Arc::clone(&heard);
        // Ends with the process: a thread that waits for a client holds nobody up.
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let record = Arc::clone(&record);
                thread::spawn(move || answer(stream, &record));
            }
        });
        Self { address, heard }
    }

    /// Where a path of it is.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// What came to a path so far.
    pub(crate) fn heard(&self, path: &str) -> Vec<Heard> {
        self.heard.lock().unwrap().iter().filter(|heard| heard.path == path).cloned().collect()
    }
}

fn answer(stream: TcpStream, record: &Mutex<Vec<Heard>>) {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    if reader.read_line(&mut line).unwrap_or_default() == 0 {
        return;
    }
    let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        match line.trim_end().split_once(": ") {
            Some((name, value)) => headers.push((name.to_lowercase(), value.to_owned())),
            None => break,
        }
    }
    let length = headers.iter().find(|(name, _)| name == "content-length").map(|(_, value)| value.parse().unwrap());
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body).unwrap();
    let body = serde_json::from_slice(&body).unwrap_or_default();
    record.lock().unwrap().push(Heard { path: path.clone(), headers, body });
    if path == "/hang" {
        // Until the other side gives up.
        let _ = reader.read(&mut [0]);
        return;
    }
    let status: u16 = path.trim_start_matches('/').split('/').next().and_then(|text| text.parse().ok()).unwrap_or(200);
    // Whoever has gone by now does not want it.
    let _ = write!(reader.into_inner(), "HTTP/1.1 {status} x\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
}
