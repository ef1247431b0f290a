use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use rustls::RootCertStore;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use url::Url;

use super::net::Net;
use super::tls::Tls;
use super::{Failed, FetchError, Fetched, Fetcher, Forbidden};
use crate::media::{Spool, TooLarge};

/// A public address, which nothing is ever sent to.
const PUBLIC: &str = "93.184.216.34";

/// A network that answers names as a table says, records where a fetch would connect to, and connects to one local server.
struct Recorded {
    names: Vec<(&'static str, Vec<IpAddr>)>,
    server: SocketAddr,
    /// What was asked for and connected to, in order.
    log: Mutex<Vec<String>>,
}

#[async_trait]
impl Net for Recorded {
    async fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        let mut log = self.log.lock().unwrap();
        let times = log.iter().filter(|line| **line == format!("resolve {host}")).count();
        log.push(format!("resolve {host}"));
        // A name that stands several times has another answer each time.
        let mut answers = self.names.iter().filter(|(name, _)| *name == host);
        let (_, addresses) = answers.nth(times).ok_or(io::ErrorKind::NotFound)?;
        Ok(addresses.iter().map(|address| SocketAddr::from((*address, port))).collect())
    }

    async fn connect(&self, addresses: &[SocketAddr]) -> io::Result<TcpStream> {
        let shown: Vec<String> = addresses.iter().map(SocketAddr::to_string).collect();
        self.log.lock().unwrap().push(format!("connect {}", shown.join(" ")));
        TcpStream::connect(self.server).await
    }
}

/// A fetcher within a network of its own.
struct Rig {
    fetcher: Fetcher,
    net: Arc<Recorded>,
    spool: Spool,
    folder: tempfile::TempDir,
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
        let parse = |addresses: &[&str]| addresses.iter().map(|address| address.parse().unwrap()).collect();
        let names = names.iter().map(|(name, addresses)| (*name, parse(addresses))).collect();
        let net = Arc::new(Recorded { names, server, log: Mutex::default() });
        let open_hosts = open_hosts.iter().map(|host| host.parse().unwrap()).collect();
        let folder = tempfile::tempdir().unwrap();
        Self {
            fetcher: Fetcher::over(Arc::clone(&net) as _, tls, open_hosts),
            net,
            spool: Spool::new(folder.path().to_owned()),
            folder,
        }
    }

    async fn fetch(&self, url: &str, most_bytes: u64) -> Result<Fetched, FetchError> {
        let url = Url::parse(url).unwrap();
        let fetched = self.fetcher.fetch(&url, most_bytes, &self.spool).await;
        if fetched.is_err() {
            assert_eq!(self.spooled(), 0, "something was left in the spool");
        }
        fetched
    }

    fn spooled(&self) -> usize {
        std::fs::read_dir(self.folder.path()).unwrap().count()
    }

    fn log(&self) -> Vec<String> {
        self.net.log.lock().unwrap().clone()
    }

    fn connected(&self) -> bool {
        self.log().iter().any(|line| line.starts_with("connect"))
    }
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

fn ok(headers: &str, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n{headers}\r\n{body}", body.len()).into_bytes()
}

fn moved(to: &str) -> Vec<u8> {
    format!("HTTP/1.1 302 Found\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n").into_bytes()
}

fn forbidden(fetched: Result<Fetched, FetchError>) -> Forbidden {
    match fetched {
        Err(FetchError::Forbidden(forbidden)) => forbidden,
        other => panic!("{other:?} is not forbidden"),
    }
}

fn failed(fetched: Result<Fetched, FetchError>) -> Failed {
    match fetched {
        Err(FetchError::Failed { why, .. }) => why,
        other => panic!("{other:?} has not failed"),
    }
}

#[tokio::test]
async fn a_file_is_fetched_as_it_is_with_nothing_of_ours() {
    let rig = Rig::start(&[("a.example", &[PUBLIC, "2606:4700:4700::1111"])], &[], |head| {
        ok("content-type: image/png\r\nset-cookie: a=b\r\n", head)
    })
    .await;
    let fetched = rig.fetch("http://a.example:8080/x/y.png?sig=1#part", 10_000).await.unwrap();
    assert_eq!(fetched.content_type.as_deref(), Some("image/png"));
    let asked = std::fs::read_to_string(fetched.file.path()).unwrap();
    let version = env!("CARGO_PKG_VERSION");
    let expected = format!(
        "GET /x/y.png?sig=1 HTTP/1.1\r\nhost: a.example:8080\r\nuser-agent: clapboard/{version}\r\naccept: */*\r\n\
         accept-encoding: identity\r\n\r\n"
    );
    assert_eq!(asked, expected);
    let expected = ["resolve a.example".to_owned(), format!("connect {PUBLIC}:8080 [2606:4700:4700::1111]:8080")];
    assert_eq!(rig.log(), expected);
    drop(fetched);
    assert_eq!(rig.spooled(), 0);
}

#[tokio::test]
async fn no_spelling_of_a_closed_address_is_connected_to() {
    let rig = Rig::start(&[], &["open.example"], |_| ok("", "secret")).await;
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
        assert_eq!(forbidden(rig.fetch(url, 100).await), Forbidden::Address, "{url}");
    }
    assert_eq!(rig.log(), Vec::<String>::new());
}

#[tokio::test]
async fn every_address_of_a_name_is_looked_at() {
    let names: [(_, &[&str]); 4] = [
        ("localhost", &["127.0.0.1"]),
        ("mixed.example", &[PUBLIC, "10.0.0.1"]),
        ("six.example", &["::1"]),
        ("metadata.google.internal", &["169.254.169.254"]),
    ];
    let rig = Rig::start(&names, &[], |_| ok("", "secret")).await;
    for (name, _) in names {
        assert_eq!(forbidden(rig.fetch(&format!("http://{name}/"), 100).await), Forbidden::Address, "{name}");
    }
    assert_eq!(failed(rig.fetch("http://nowhere.example/", 100).await), Failed::UnknownHost);
    assert!(!rig.connected());
}

#[tokio::test]
async fn a_name_that_changes_its_address_is_asked_once_and_what_was_looked_at_is_connected_to() {
    let rig = Rig::start(&[("a.example", &[PUBLIC]), ("a.example", &["127.0.0.1"])], &[], |_| ok("", "fine")).await;
    rig.fetch("http://a.example/", 100).await.unwrap();
    assert_eq!(rig.log(), ["resolve a.example".to_owned(), format!("connect {PUBLIC}:80")]);
    assert_eq!(forbidden(rig.fetch("http://a.example/", 100).await), Forbidden::Address);
}

#[tokio::test]
async fn a_redirect_is_looked_at_like_any_url() {
    let names: [(_, &[&str]); 4] = [
        ("a.example", &[PUBLIC]),
        ("inside.example", &["10.0.0.1"]),
        ("b.example", &["8.8.8.8"]),
        ("b.example", &["8.8.4.4"]),
    ];
    for (to, error) in [
        ("http://127.0.0.1/", Forbidden::Address),
        ("http://inside.example/", Forbidden::Address),
        ("//169.254.169.254/latest", Forbidden::Address),
        ("http://b.example:22/", Forbidden::Port(22)),
        ("file:///etc/passwd", Forbidden::Scheme),
        ("gopher://b.example/", Forbidden::Scheme),
        ("http://me:secret@b.example/", Forbidden::Credentials),
    ] {
        let rig = Rig::start(&names, &[], move |_| moved(to)).await;
        assert_eq!(forbidden(rig.fetch("http://a.example/", 100).await), error, "{to}");
        let connects = rig.log().iter().filter(|line| line.starts_with("connect")).count();
        assert_eq!(connects, 1, "{to}");
    }
    let rig = Rig::start(&names, &[], |head| match head.starts_with("GET /x ") {
        true => ok("", "here"),
        false if head.contains("b.example") => moved("x"),
        false => moved("http://b.example/y"),
    })
    .await;
    let fetched = rig.fetch("http://a.example/", 100).await.unwrap();
    assert_eq!(std::fs::read(fetched.file.path()).unwrap(), b"here");
}

#[tokio::test]
async fn redirects_end() {
    let names: [(_, &[&str]); 9] = [("a.example", &[PUBLIC]); 9];
    let rig = Rig::start(&names, &[], |_| moved("/again")).await;
    assert_eq!(failed(rig.fetch("http://a.example/", 100).await), Failed::TooManyRedirects);
    assert_eq!(rig.log().len(), 8, "one request and three redirects");
    let rig = Rig::start(&[("a.example", &[PUBLIC])], &[], |_| b"HTTP/1.1 302 Found\r\n\r\n".to_vec()).await;
    assert_eq!(failed(rig.fetch("http://a.example/", 100).await), Failed::Redirect);
}

#[tokio::test]
async fn a_host_that_the_operator_names_may_be_anywhere_and_no_other() {
    let names: [(_, &[&str]); 2] = [("nas.home", &["192.168.1.2"]), ("other.home", &["192.168.1.2"])];
    let rig = Rig::start(&names, &["NAS.home", "127.0.0.1", "::1"], |_| ok("", "fine")).await;
    for url in ["http://nas.home:8080/", "http://127.0.0.1:9000/", "http://[::1]/"] {
        rig.fetch(url, 100).await.unwrap();
        rig.net.log.lock().unwrap().clear();
    }
    assert_eq!(forbidden(rig.fetch("http://other.home/", 100).await), Forbidden::Address);
    assert_eq!(forbidden(rig.fetch("http://127.0.0.2/", 100).await), Forbidden::Address);
}

#[tokio::test]
async fn ports_of_other_services_are_not_connected_to() {
    let rig = Rig::start(&[], &["127.0.0.1"], |_| ok("", "fine")).await;
    for port in [0, 21, 22, 25, 79, 81, 442, 444, 1023] {
        assert_eq!(forbidden(rig.fetch(&format!("http://127.0.0.1:{port}/"), 9).await), Forbidden::Port(port));
    }
    assert!(!rig.connected());
    for port in [80, 443, 1024, 65535] {
        rig.fetch(&format!("http://127.0.0.1:{port}/"), 9).await.unwrap();
    }
}

#[tokio::test]
async fn what_is_no_file_is_told() {
    for (answer, error) in [
        (b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n".to_vec(), Failed::Status(404)),
        (b"HTTP/1.1 206 Partial Content\r\ncontent-length: 0\r\n\r\n".to_vec(), Failed::Status(206)),
        (ok("content-encoding: gzip\r\n", "x"), Failed::Encoded),
        (ok("content-encoding: identity\r\ncontent-encoding: br\r\n", "x"), Failed::Encoded),
        (b"SSH-2.0-OpenSSH_9.2\r\n".to_vec(), Failed::Broken),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nabc".to_vec(), Failed::Broken),
        (Vec::new(), Failed::Broken),
        (ok("", &"x".repeat(101)), Failed::TooLarge(TooLarge(100))),
        (format!("HTTP/1.1 200 OK\r\n\r\n{}", "x".repeat(101)).into_bytes(), Failed::TooLarge(TooLarge(100))),
        (
            format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n65\r\n{}\r\n0\r\n\r\n", "x".repeat(101))
                .into_bytes(),
            Failed::TooLarge(TooLarge(100)),
        ),
        (format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "x".repeat(1 << 17)).into_bytes(), Failed::Broken),
    ] {
        let shown = String::from_utf8_lossy(&answer[..answer.len().min(60)]).into_owned();
        let rig = Rig::start(&[("a.example", &[PUBLIC])], &[], move |_| answer.clone()).await;
        assert_eq!(failed(rig.fetch("http://a.example/", 100).await), error, "{shown}");
    }
    let rig = Rig::start(&[("a.example", &[PUBLIC])], &[], |_| ok("content-encoding: identity\r\n", "x")).await;
    rig.fetch("http://a.example/", 1).await.unwrap();
}

#[tokio::test]
async fn a_fetch_that_is_given_up_leaves_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let rig = Rig::over(&[("a.example", &[PUBLIC])], &[], listener.local_addr().unwrap(), Tls::default());
    let dripping = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        head(&mut stream).await;
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
        while stream.write_all(b"x").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    let url = Url::parse("http://a.example/").unwrap();
    let fetch = rig.fetcher.fetch(&url, 1 << 20, &rig.spool);
    assert!(tokio::time::timeout(Duration::from_millis(100), fetch).await.is_err());
    assert_eq!(rig.spooled(), 0);
    // The connection is gone too, else this would go on for ever.
    tokio::time::timeout(Duration::from_secs(20), dripping).await.unwrap().unwrap();
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
                let _ = stream.write_all(&ok("", "sealed")).await;
                let _ = stream.shutdown().await;
            }
        }
    });
    let names: [(_, &[&str]); 2] = [("a.example", &[PUBLIC]), ("b.example", &[PUBLIC])];
    let mut roots = RootCertStore::empty();
    roots.add(certificate).unwrap();
    let rig = Rig::over(&names, &[], server, Tls::trusting(roots));
    for url in ["https://a.example/", "https://93.184.216.34/"] {
        let fetched = rig.fetch(url, 100).await.unwrap();
        assert_eq!(std::fs::read(fetched.file.path()).unwrap(), b"sealed");
    }
    assert_eq!(failed(rig.fetch("https://b.example/", 100).await), Failed::Tls, "another name");
    let strangers = Rig::over(&names, &[], server, Tls::trusting(RootCertStore::empty()));
    assert_eq!(failed(strangers.fetch("https://a.example/", 100).await), Failed::Tls, "an unknown authority");
}
