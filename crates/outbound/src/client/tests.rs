use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::RootCertStore;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use url::Url;

use super::Client;
use crate::error::{Error, Failed, Forbidden};
use crate::fixtures::RecordedNet;
use crate::request::{Answer, Request};
use crate::rules::Rules;
use crate::tls::Tls;

/// A public address, which nothing is ever sent to.
const PUBLIC: &str = "93.184.216.34";

/// A client within a network of its own.
struct Rig {
    client: Client,
    net: Arc<RecordedNet>,
}

impl Rig {
    /// Answers every request with what `answer` says for its head.
    async fn start(
        names: &[(&'static str, &[&str])],
        open_hosts: &[&str],
        answer: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = listener.local_addr().unwrap();
        let answer = Arc::new(answer);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let answer = Arc::clone(&answer);
                tokio::spawn(async move {
                    let head = head(&mut stream).await;
                    let _ = stream.write_all(&answer(&head)).await;
                });
            }
        });
        Self::over(names, open_hosts, server, Tls::default())
    }

    fn over(names: &[(&'static str, &[&str])], open_hosts: &[&str], server: SocketAddr, tls: Tls) -> Self {
        let net = Arc::new(RecordedNet::new(names, server));
        let rules = Rules::new(open_hosts.iter().map(|host| host.parse().unwrap()).collect());
        Self { client: Client::over(Arc::clone(&net) as _, tls, rules), net }
    }

    async fn get(&self, url: &str) -> Result<Answer, Error> {
        self.client.send(Request::get(&Url::parse(url).unwrap())).await
    }

    async fn get_text(&self, url: &str) -> String {
        text(self.get(url).await.unwrap()).await
    }
}

async fn text(mut answer: Answer) -> String {
    let mut bytes = Vec::new();
    while let Some(chunk) = answer.body.chunk().await.unwrap() {
        bytes.extend_from_slice(&chunk);
    }
    String::from_utf8(bytes).unwrap()
}

async fn head(stream: &mut (impl AsyncReadExt + Unpin)) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => break,
        }
    }
    String::from_utf8(head).unwrap()
}

fn ok(body: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

#[track_caller]
fn forbidden(sent: Result<Answer, Error>) -> Forbidden {
    match sent {
        Err(Error::Forbidden(forbidden)) => forbidden,
        other => panic!("{other:?} is not forbidden"),
    }
}

#[track_caller]
fn failed(sent: Result<Answer, Error>) -> Failed {
    match sent {
        Err(Error::Failed { why, .. }) => why,
        other => panic!("{other:?} has not failed"),
    }
}

#[tokio::test]
async fn a_request_says_what_it_must_and_nothing_of_ours() {
    let names: [(_, &[&str]); 1] = [("a.example", &[PUBLIC, "2606:4700:4700::1111"])];
    let rig = Rig::start(&names, &[], ok).await;
    let asked = rig.get_text("http://a.example:8080/x/y.png?sig=1#part").await;
    let version = env!("CARGO_PKG_VERSION");
    let expected = format!(
        "GET /x/y.png?sig=1 HTTP/1.1\r\nhost: a.example:8080\r\nuser-agent: clapboard/{version}\r\naccept: */*\r\n\
         accept-encoding: identity\r\n\r\n"
    );
    assert_eq!(asked, expected);
    let expected = ["resolve a.example".to_owned(), format!("connect {PUBLIC}:8080 [2606:4700:4700::1111]:8080")];
    assert_eq!(rig.net.log(), expected);
}

#[tokio::test]
async fn a_post_brings_its_body_and_headers() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let rig = Rig::over(&[("a.example", &[PUBLIC])], &[], listener.local_addr().unwrap(), Tls::default());
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let head = head(&mut stream).await;
        let mut body = [0; 7];
        stream.read_exact(&mut body).await.unwrap();
        stream.write_all(b"HTTP/1.1 418 No\r\nretry-after: 7\r\ncontent-length: 0\r\n\r\n").await.unwrap();
        (head, body)
    });
    let url = Url::parse("http://a.example/hook").unwrap();
    let request = Request::post(&url, "application/json", &b"{\"a\":1}"[..]).header("webhook-id", "evt_1");
    let answer = rig.client.send(request).await.unwrap();
    assert_eq!((answer.status.as_u16(), answer.headers["retry-after"].as_bytes()), (418, &b"7"[..]));
    let (head, body) = server.await.unwrap();
    assert!(head.starts_with("POST /hook HTTP/1.1\r\nhost: a.example\r\n"), "{head}");
    for line in ["content-type: application/json", "webhook-id: evt_1", "content-length: 7"] {
        assert!(head.contains(&format!("\r\n{line}\r\n")), "{head}");
    }
    assert_eq!(&body, b"{\"a\":1}");
    let broken = Request::post(&url, "application/json", "").header("webhook-id", "two\nlines");
    assert_eq!(failed(rig.client.send(broken).await), Failed::Broken);
}

#[tokio::test]
async fn no_spelling_of_a_closed_address_is_connected_to() {
    let rig = Rig::start(&[], &["open.example"], |_| ok("secret")).await;
    for url in [
        "http://127.0.0.1/",
        "http://127.1:8080/",
        "http://2130706433/",
        "http://0x7f000001/",
        "http://0177.0.0.1/",
        "http://0/",
        "http://10.0.0.1/",
        "http://192.168.1.1/admin",
        "http://100.100.100.200/latest/meta-data/",
        "http://169.254.169.254/latest/meta-data/",
        "http://2852039166/",
        "http://0xa9.0xfe.0xa9.0xfe/",
        "https://169.254.169.254/",
        "http://[::1]/",
        "http://[::ffff:169.254.169.254]/",
        "http://[::ffff:7f00:1]:8080/",
        "http://[64:ff9b::169.254.169.254]/",
        "http://[2002:7f00:1::]/",
        "http://[fd00:ec2::254]/",
        "http://[fe80::1]/",
        "http://\u{ff11}27.0.0.1/",
    ] {
        assert_eq!(forbidden(rig.get(url).await), Forbidden::Address, "{url}");
    }
    assert_eq!(rig.net.log(), Vec::<String>::new());
}

#[tokio::test]
async fn every_address_of_a_name_is_looked_at() {
    let names: [(_, &[&str]); 4] = [
        ("localhost", &["127.0.0.1"]),
        ("mixed.example", &[PUBLIC, "10.0.0.1"]),
        ("six.example", &["::1"]),
        ("metadata.google.internal", &["169.254.169.254"]),
    ];
    let rig = Rig::start(&names, &[], |_| ok("secret")).await;
    for (name, _) in names {
        assert_eq!(forbidden(rig.get(&format!("http://{name}/")).await), Forbidden::Address, "{name}");
    }
    assert_eq!(failed(rig.get("http://nowhere.example/").await), Failed::UnknownHost);
    assert!(!rig.net.connected());
}

#[tokio::test]
async fn a_name_that_changes_its_address_is_asked_once_and_what_was_looked_at_is_connected_to() {
    let rig = Rig::start(&[("a.example", &[PUBLIC]), ("a.example", &["127.0.0.1"])], &[], |_| ok("fine")).await;
    rig.get("http://a.example/").await.unwrap();
    assert_eq!(rig.net.log(), ["resolve a.example".to_owned(), format!("connect {PUBLIC}:80")]);
    assert_eq!(forbidden(rig.get("http://a.example/").await), Forbidden::Address);
}

#[tokio::test]
async fn a_host_that_the_operator_names_may_be_anywhere_and_no_other() {
    let names: [(_, &[&str]); 2] = [("nas.home", &["192.168.1.2"]), ("other.home", &["192.168.1.2"])];
    let rig = Rig::start(&names, &["NAS.home", "127.0.0.1", "::1"], |_| ok("fine")).await;
    for url in ["http://nas.home:8080/", "http://127.0.0.1:9000/", "http://[::1]/"] {
        rig.get(url).await.unwrap();
        rig.net.clear();
    }
    assert_eq!(forbidden(rig.get("http://other.home/").await), Forbidden::Address);
    assert_eq!(forbidden(rig.get("http://127.0.0.2/").await), Forbidden::Address);
}

#[tokio::test]
async fn ports_of_other_services_are_not_connected_to() {
    let rig = Rig::start(&[], &["127.0.0.1"], |_| ok("fine")).await;
    for port in [0, 21, 22, 25, 79, 81, 442, 444, 1023] {
        assert_eq!(forbidden(rig.get(&format!("http://127.0.0.1:{port}/")).await), Forbidden::Port(port));
    }
    assert!(!rig.net.connected());
    for port in [80, 443, 1024, 65535] {
        rig.get(&format!("http://127.0.0.1:{port}/")).await.unwrap();
    }
}

#[tokio::test]
async fn a_host_of_https_proves_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let (key, certificate) = (folder.path().join("key.der"), folder.path().join("certificate.der"));
    let made = std::process::Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"])
        .args(["-subj", "/CN=a.example", "-addext", "subjectAltName=DNS:a.example,IP:93.184.216.34"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .args(["-outform", "DER", "-keyout"])
        .arg(folder.path().join("key.pem"))
        .arg("-out")
        .arg(&certificate)
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let converted = std::process::Command::new("openssl")
        .args(["pkcs8", "-topk8", "-nocrypt", "-outform", "DER", "-in"])
        .arg(folder.path().join("key.pem"))
        .arg("-out")
        .arg(&key)
        .output()
        .unwrap();
    assert!(converted.status.success(), "{}", String::from_utf8_lossy(&converted.stderr));
    let certificate = rustls::pki_types::CertificateDer::from(std::fs::read(&certificate).unwrap());
    let key = rustls::pki_types::PrivateKeyDer::try_from(std::fs::read(&key).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], key)
        .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            if let Ok(mut stream) = acceptor.accept(stream).await {
                head(&mut stream).await;
                let _ = stream.write_all(&ok("sealed")).await;
                let _ = stream.shutdown().await;
            }
        }
    });
    let names: [(_, &[&str]); 2] = [("a.example", &[PUBLIC]), ("b.example", &[PUBLIC])];
    let mut roots = RootCertStore::empty();
    roots.add(certificate).unwrap();
    let rig = Rig::over(&names, &[], server, Tls::trusting(roots));
    for url in ["https://a.example/", "https://93.184.216.34/"] {
        assert_eq!(rig.get_text(url).await, "sealed");
    }
    assert_eq!(failed(rig.get("https://b.example/").await), Failed::Tls, "another name");
    let strangers = Rig::over(&names, &[], server, Tls::trusting(RootCertStore::empty()));
    assert_eq!(failed(strangers.get("https://a.example/").await), Failed::Tls, "an unknown authority");
}

#[tokio::test]
async fn where_https_is_demanded_nothing_is_sent_without() {
    let net = Arc::new(RecordedNet::new(&[("a.example", &[PUBLIC])], "127.0.0.1:9".parse().unwrap()));
    let client = Client::over(Arc::clone(&net) as _, Tls::default(), Rules::default().https_only());
    let url = Url::parse("http://a.example/").unwrap();
    assert_eq!(forbidden(client.send(Request::get(&url)).await), Forbidden::Plaintext);
    assert_eq!(net.log(), Vec::<String>::new());
}

#[tokio::test]
async fn a_redirect_is_an_answer_and_is_not_followed() {
    let moved = b"HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1/\r\ncontent-length: 0\r\n\r\n";
    let rig = Rig::start(&[("a.example", &[PUBLIC])], &[], move |_| moved.to_vec()).await;
    assert_eq!(rig.get("http://a.example/").await.unwrap().status.as_u16(), 302);
    assert_eq!(rig.net.log().len(), 2);
}

#[tokio::test]
async fn what_is_no_answer_is_told() {
    for answer in [
        b"SSH-2.0-OpenSSH_9.2\r\n".to_vec(),
        Vec::new(),
        format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "x".repeat(1 << 17)).into_bytes(),
    ] {
        let rig = Rig::start(&[("a.example", &[PUBLIC])], &[], move |_| answer.clone()).await;
        assert_eq!(failed(rig.get("http://a.example/").await), Failed::Broken);
    }
}

#[tokio::test]
async fn a_body_without_end_is_read_as_far_as_is_asked_for() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let rig = Rig::over(&[("a.example", &[PUBLIC])], &[], listener.local_addr().unwrap(), Tls::default());
    let endless = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        head(&mut stream).await;
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\n").await.unwrap();
        while stream.write_all(&[0; 4096]).await.is_ok() {}
    });
    let answer = rig.get("http://a.example/").await.unwrap();
    answer.body.discard(64 << 10).await;
    // The connection has ended with the body, else this would go on for ever.
    tokio::time::timeout(Duration::from_secs(20), endless).await.unwrap().unwrap();
}

#[tokio::test]
async fn answers_before_the_answer_are_passed_over_and_bounded() {
    const NOT_YET: &str = "HTTP/1.1 102 Processing\r\n\r\n";
    let rig = Rig::start(&[], &["127.0.0.1"], |head| {
        let times = if head.starts_with("GET /few") { 3 } else { 100_000 };
        format!("{}HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi", NOT_YET.repeat(times)).into_bytes()
    })
    .await;
    assert_eq!(rig.get_text("http://127.0.0.1/few").await, "hi");
    let flooded = rig.get("http://127.0.0.1/many").await;
    assert!(matches!(flooded, Err(Error::Failed { why: Failed::Broken, .. })), "it ends");
}

#[tokio::test]
async fn what_follows_the_head_is_not_bounded_with_it() {
    let body = "x".repeat(2 << 20);
    let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    let rig = Rig::start(&[], &["127.0.0.1"], move |_| answer.clone().into_bytes()).await;
    assert_eq!(rig.get_text("http://127.0.0.1/").await.len(), 2 << 20);
}
