//! Receivers of the tests' own, and what of their deliveries the store knows.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clapboard_jobs::fixtures::small_spec;
use clapboard_jobs::{Delivery, DeliveryQuery, DeliveryState, Endpoint, EndpointId, NewJob, Secret, Store, Tenant};
use clapboard_outbound::fixtures::RecordedNet;
use clapboard_outbound::{Client, Rules, Tls};
use clapboard_scheduler::{Courier, Options};
use hmac::{Hmac, Mac};
use serde_json::Value;
use sha2::Sha256;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::house::House;

/// A public address, which nothing is ever sent to.
pub(crate) const PUBLIC: &str = "93.184.216.34";
/// How long anything may take on a slow and busy machine.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// One request as a receiver got it.
#[derive(Debug, Clone)]
pub(crate) struct Got {
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Got {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    pub(crate) fn host(&self) -> &str {
        self.header("host").unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    /// Tells how many of the signatures are by a secret.
    pub(crate) fn signatures_by(&self, secret: &Secret) -> usize {
        let (id, timestamp) = (self.header("webhook-id").unwrap(), self.header("webhook-timestamp").unwrap());
        let mut mac = Hmac::<Sha256>::new_from_slice(secret.bytes()).unwrap();
        mac.update(format!("{id}.{timestamp}.").as_bytes());
        mac.update(&self.body);
        let expected = format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()));
        let given = self.header("webhook-signature").unwrap().split(' ');
        given.filter(|signature| *signature == expected).count()
    }
}

/// What a receiver does.
#[derive(Debug, Clone)]
pub(crate) enum Does {
    /// Answers with a head of these lines.
    Says(String),
    /// Says nothing.
    Hangs,
    /// Answers well, with a body without end.
    GoesOn,
    /// Sends the head byte by byte, and slowly.
    Drips,
}

pub(crate) fn says(status: u16, headers: &str) -> Does {
    Does::Says(format!("HTTP/1.1 {status} x\r\ncontent-length: 0\r\n{headers}\r\n"))
}

/// All receivers there are, behind one port.
pub(crate) struct Receivers {
    pub(crate) net: Arc<RecordedNet>,
    got: Arc<Mutex<Vec<Got>>>,
}

impl Receivers {
    /// Listens, and does what `act` says for each request.
    pub(crate) async fn start(
        names: &[(&'static str, &[&str])],
        act: impl Fn(&Got) -> Does + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let net = Arc::new(RecordedNet::new(names, listener.local_addr().unwrap()));
        let got = Arc::new(Mutex::new(Vec::new()));
        let (log, act) = (Arc::clone(&got), Arc::new(act));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer(stream, Arc::clone(&log), Arc::clone(&act)));
            }
        });
        Self { net, got }
    }

    pub(crate) fn got(&self) -> Vec<Got> {
        self.got.lock().unwrap().clone()
    }

    /// Makes a courier that reaches them.
    pub(crate) fn courier(&self, store: Arc<dyn Store>, options: &Options) -> Courier {
        self.courier_by(Rules::default(), store, options)
    }

    pub(crate) fn courier_by(&self, rules: Rules, store: Arc<dyn Store>, options: &Options) -> Courier {
        Courier::over(store, Client::over(Arc::clone(&self.net) as _, Tls::default(), rules), options)
    }
}

pub(crate) async fn answer(mut stream: TcpStream, log: Arc<Mutex<Vec<Got>>>, act: Arc<impl Fn(&Got) -> Does>) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let Ok(byte) = stream.read_u8().await else { return };
        head.push(byte);
    }
    let mut got = Got { head: String::from_utf8(head).unwrap(), body: Vec::new() };
    got.body.resize(got.header("content-length").unwrap().parse().unwrap(), 0);
    if stream.read_exact(&mut got.body).await.is_err() {
        return;
    }
    let does = act(&got);
    log.lock().unwrap().push(got);
    match does {
        Does::Says(head) => {
            let _ = stream.write_all(head.as_bytes()).await;
        }
        Does::Hangs => {
            let _ = stream.read_u8().await;
        }
        Does::GoesOn => {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\n\x1f\x8b\x08").await;
            while stream.write_all(&[b'x'; 4096]).await.is_ok() {}
        }
        Does::Drips => {
            for byte in b"HTTP/1.1 200 OK\r\n".iter().cycle() {
                if stream.write_all(&[*byte]).await.is_err() {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }
}

pub(crate) fn hasty() -> Options {
    Options {
        webhook_interval: Duration::from_millis(100),
        webhook_drain: Duration::from_millis(200),
        ..Options::default()
    }
}

impl House {
    pub(crate) async fn endpoint(&self, url: &str) -> Endpoint {
        let endpoint = Endpoint::new(self.tenant.clone(), url);
        self.store.add_endpoint(&endpoint).await.unwrap();
        endpoint
    }

    pub(crate) async fn deliveries(&self) -> Vec<Delivery> {
        let query = DeliveryQuery { limit: 100, ..DeliveryQuery::default() };
        self.store.deliveries(&self.tenant, &query).await.unwrap().deliveries
    }

    /// Waits until the only delivery was tried for the first time.
    pub(crate) async fn tried_once(&self) -> Delivery {
        self.until(async || {
            let delivery = self.deliveries().await.pop()?;
            let is_told = delivery.last_error.is_some() || delivery.state == DeliveryState::Delivered;
            is_told.then_some(delivery)
        })
        .await
    }

    /// Lets a courier make one more try, and returns what the store knows of the only delivery when it has ended.
    pub(crate) async fn try_again(&self, receivers: &Receivers) -> Delivery {
        let tries = receivers.net.log().iter().filter(|line| line.starts_with("resolve")).count();
        let options = Options { webhook_drain: LONG, ..hasty() };
        let (shutdown, running) = run(receivers.courier(Arc::clone(&self.store), &options));
        let is_begun = || receivers.net.log().iter().filter(|line| line.starts_with("resolve")).count() > tries;
        self.until(async || is_begun().then_some(())).await;
        shutdown.cancel();
        running.await.unwrap();
        self.deliveries().await.pop().unwrap()
    }

    /// Makes a tenant's job and ends it.
    pub(crate) async fn end_one(&self, tenant: &Tenant) {
        let job = self.store.create(NewJob::new(tenant.clone(), "h3", &small_spec())).await.unwrap();
        self.store.cancel(tenant, job.id).await.unwrap().unwrap();
    }

    pub(crate) async fn why_disabled(&self, id: EndpointId) -> Option<String> {
        self.store.endpoint(&self.tenant, id).await.unwrap().unwrap().disabled.map(|(_, why)| why)
    }
}

pub(crate) fn run(courier: Courier) -> (CancellationToken, JoinHandle<()>) {
    let shutdown = CancellationToken::new();
    (shutdown.clone(), tokio::spawn(courier.run(shutdown)))
}
