use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use clapboard_outbound::fixtures::RecordedNet;
use clapboard_outbound::{Client, Failed as Unanswered, Forbidden, Rules, Tls};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use url::Url;

use super::{Failed, FetchError, Fetched, Fetcher};
use crate::media::{Spool, TooLarge};

/// A public address, which nothing is ever sent to.
const PUBLIC: &str = "93.184.216.34";

/// A fetcher within a network of its own.
struct Rig {
    fetcher: Fetcher,
    net: Arc<RecordedNet>,
    spool: Spool,
    folder: tempfile::TempDir,
}

impl Rig {
    /// Answers every request with what `answer` says for its head.
    async fn start(
        names: &[(&'static str, &[&str])],
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
        Self::over(names, server)
    }

    fn over(names: &[(&'static str, &[&str])], server: SocketAddr) -> Self {
        let net = Arc::new(RecordedNet::new(names, server));
        let folder = tempfile::tempdir().unwrap();
        Self {
            fetcher: Fetcher::over(Client::over(Arc::clone(&net) as _, Tls::default(), Rules::default())),
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
        self.net.log()
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

#[track_caller]
fn forbidden(fetched: Result<Fetched, FetchError>) -> Forbidden {
    match fetched {
        Err(FetchError::Forbidden(forbidden)) => forbidden,
        other => panic!("{other:?} is not forbidden"),
    }
}

#[track_caller]
fn failed(fetched: Result<Fetched, FetchError>) -> Failed {
    match fetched {
        Err(FetchError::Failed { why, .. }) => why,
        other => panic!("{other:?} has not failed"),
    }
}

#[tokio::test]
async fn a_file_is_fetched_as_it_is() {
    let rig = Rig::start(&[("a.example", &[PUBLIC])], |_| ok("content-type: image/png\r\n", "as it is")).await;
    let fetched = rig.fetch("http://a.example:8080/x/y.png?sig=1#part", 10_000).await.unwrap();
    assert_eq!(fetched.content_type.as_deref(), Some("image/png"));
    assert_eq!(std::fs::read(fetched.file.path()).unwrap(), b"as it is");
    drop(fetched);
    assert_eq!(rig.spooled(), 0);
}

#[tokio::test]
async fn nothing_is_fetched_from_where_no_request_may_go() {
    let names: [(_, &[&str]); 3] = [
        ("six.example", &["::1"]),
        ("mixed.example", &[PUBLIC, "10.0.0.1"]),
        ("metadata.example", &["169.254.169.254"]),
    ];
    let rig = Rig::start(&names, |_| ok("", "secret")).await;
    for host in [
        "six.example",
        "mixed.example",
        "metadata.example",
        "127.0.0.1",
        "0x7f.1",
        "0177.0.0.1",
        "2130706433",
        "[::1]",
        "[::ffff:169.254.169.254]",
        "169.254.169.254",
    ] {
        assert_eq!(forbidden(rig.fetch(&format!("http://{host}/"), 100).await), Forbidden::Address, "{host}");
    }
    assert_eq!(failed(rig.fetch("http://nowhere.example/", 100).await), Failed::Unanswered(Unanswered::UnknownHost));
    assert!(!rig.net.connected());
}

#[tokio::test]
async fn a_name_that_changes_its_address_between_redirects_is_looked_at_again() {
    let names: [(_, &[&str]); 2] = [("a.example", &[PUBLIC]), ("a.example", &["127.0.0.1"])];
    let rig = Rig::start(&names, |_| moved("/again")).await;
    assert_eq!(forbidden(rig.fetch("http://a.example/", 100).await), Forbidden::Address);
    assert_eq!(rig.log().iter().filter(|line| line.starts_with("connect")).count(), 1);
}

#[tokio::test]
async fn what_would_unpack_into_more_is_refused_packed_and_unread() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let rig = Rig::over(&[("a.example", &[PUBLIC])], listener.local_addr().unwrap());
    let bomb = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        head(&mut stream).await;
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\n\x1f\x8b\x08").await.unwrap();
        while stream.write_all(&[0; 4096]).await.is_ok() {}
    });
    assert_eq!(failed(rig.fetch("http://a.example/", 100).await), Failed::Encoded);
    tokio::time::timeout(Duration::from_secs(20), bomb).await.unwrap().unwrap();
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
        let rig = Rig::start(&names, move |_| moved(to)).await;
        assert_eq!(forbidden(rig.fetch("http://a.example/", 100).await), error, "{to}");
        let connects = rig.log().iter().filter(|line| line.starts_with("connect")).count();
        assert_eq!(connects, 1, "{to}");
    }
    let rig = Rig::start(&names, |head| match head.starts_with("GET /x ") {
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
    let rig = Rig::start(&names, |_| moved("/again")).await;
    assert_eq!(failed(rig.fetch("http://a.example/", 100).await), Failed::TooManyRedirects);
    assert_eq!(rig.log().len(), 8, "one request and three redirects");
    let rig = Rig::start(&[("a.example", &[PUBLIC])], |_| b"HTTP/1.1 302 Found\r\n\r\n".to_vec()).await;
    assert_eq!(failed(rig.fetch("http://a.example/", 100).await), Failed::Redirect);
}

#[tokio::test]
async fn what_is_no_file_is_told() {
    for (answer, error) in [
        (b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n".to_vec(), Failed::Status(404)),
        (b"HTTP/1.1 206 Partial Content\r\ncontent-length: 0\r\n\r\n".to_vec(), Failed::Status(206)),
        (ok("content-encoding: gzip\r\n", "x"), Failed::Encoded),
        (ok("content-encoding: identity\r\ncontent-encoding: br\r\n", "x"), Failed::Encoded),
        (b"SSH-2.0-OpenSSH_9.2\r\n".to_vec(), Failed::Unanswered(Unanswered::Broken)),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nabc".to_vec(), Failed::Unanswered(Unanswered::Broken)),
        (Vec::new(), Failed::Unanswered(Unanswered::Broken)),
        (ok("", &"x".repeat(101)), Failed::TooLarge(TooLarge(100))),
        (format!("HTTP/1.1 200 OK\r\n\r\n{}", "x".repeat(101)).into_bytes(), Failed::TooLarge(TooLarge(100))),
        (
            format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n65\r\n{}\r\n0\r\n\r\n", "x".repeat(101))
                .into_bytes(),
            Failed::TooLarge(TooLarge(100)),
        ),
        (
            format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "x".repeat(1 << 17)).into_bytes(),
            Failed::Unanswered(Unanswered::Broken),
        ),
    ] {
        let shown = String::from_utf8_lossy(&answer[..answer.len().min(60)]).into_owned();
        let rig = Rig::start(&[("a.example", &[PUBLIC])], move |_| answer.clone()).await;
        assert_eq!(failed(rig.fetch("http://a.example/", 100).await), error, "{shown}");
    }
    let rig = Rig::start(&[("a.example", &[PUBLIC])], |_| ok("content-encoding: identity\r\n", "x")).await;
    rig.fetch("http://a.example/", 1).await.unwrap();
}

#[tokio::test]
async fn a_fetch_that_is_given_up_leaves_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let rig = Rig::over(&[("a.example", &[PUBLIC])], listener.local_addr().unwrap());
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
