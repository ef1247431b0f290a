use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use clapboard_testkit::{FaultProxy, Mode, S3, free_port};
use futures_util::TryStreamExt;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;

const MIB: usize = 1024 * 1024;

/// How long a store waits for a byte where a test has the server hang.
const PATIENCE: Duration = Duration::from_secs(2);

/// Within which a call that waits for `PATIENCE` must end, on a busy machine too.
const BOUND: Duration = Duration::from_secs(12);

fn options(s3: &S3) -> S3Options {
    S3Options {
        endpoint: Some(s3.endpoint()),
        path_style: true,
        access_key_id: Some(s3.access_key().to_owned()),
        secret_access_key: Some(s3.secret_key().to_owned()),
        multipart_threshold_bytes: MIB as u64,
        part_size_bytes: 5 * MIB as u64,
        connect_timeout: Duration::from_secs(1),
        ..S3Options::new(s3.bucket())
    }
}

/// A server, and a store that reaches it through a network which can be spoilt.
async fn behind_proxy(change: impl FnOnce(&mut S3Options)) -> (S3, FaultProxy, S3Blob) {
    let s3 = S3::start();
    let proxy = FaultProxy::start(s3.address());
    let mut options = S3Options { endpoint: Some(format!("http://{}", proxy.address())), ..options(&s3) };
    change(&mut options);
    let blob = S3Blob::open(options).await.unwrap();
    (s3, proxy, blob)
}

fn key(text: &str) -> BlobKey {
    text.parse().unwrap()
}

/// A file to put, in a folder that goes with it.
struct Scratch(TempDir);

impl Scratch {
    fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.path().join(name);
        fs::write(&path, bytes).unwrap();
        path
    }
}

async fn refusal(options: S3Options) -> OpenError {
    S3Blob::open(options).await.expect_err("the store opened")
}

mod suite {
    use clapboard_jobs::conformance::blob::Lack;

    use super::*;

    /// What the server of the tests cannot do: it keeps its objects as files, and looks before it writes.
    const LACKS: &[Lack] = &[Lack::OneWinner, Lack::PlainKeys, Lack::LongKeys];

    async fn empty() -> (Arc<dyn Blob>, S3) {
        let s3 = S3::start();
        let blob = S3Blob::open(S3Options { prefix: Some("team/clips".to_owned()), ..options(&s3) }).await.unwrap();
        (Arc::new(blob), s3)
    }

    clapboard_jobs::blob_conformance!(empty(), lacks: LACKS);

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn the_server_of_the_tests_lacks_what_the_suite_leaves_out_and_nothing_else() {
        let s3 = S3::start();
        let blob = S3Blob::open(options(&s3)).await.unwrap();
        let capabilities = blob.capabilities().await.unwrap();
        // Whether two of its writers meet at the wrong moment is a matter of luck.
        let lacking = capabilities.lacking().filter(|capability| *capability != Capability::OneWinner);
        assert_eq!(lacking.collect::<Vec<_>>(), [Capability::PlainKeys, Capability::LongKeys]);
        assert_eq!(s3.keys(), [] as [String; 0]);
        assert_eq!(s3.unfinished_uploads(), 0);
    }
}

#[tokio::test]
async fn reasons_not_to_open_are_told_apart() {
    let s3 = S3::start();
    let wrong_secret = S3Options { secret_access_key: Some("guess".to_owned()), ..options(&s3) };
    let refused = refusal(wrong_secret).await;
    assert!(matches!(refused, OpenError::WrongCredentials { .. }), "{refused:?}");
    assert_eq!(refused.to_string(), "the S3 credentials for bucket clapboard are wrong (SignatureDoesNotMatch)");

    let unknown_key = S3Options { access_key_id: Some("nobody".to_owned()), ..options(&s3) };
    let refused = refusal(unknown_key).await;
    assert!(matches!(refused, OpenError::WrongCredentials { .. }), "{refused:?}");

    let missing = S3Options { bucket: "missing".to_owned(), ..options(&s3) };
    let refused = refusal(missing).await;
    assert_eq!(refused.to_string(), format!("there is no S3 bucket missing at {}", s3.endpoint()));

    let nobody = format!("http://127.0.0.1:{}", free_port());
    let refused = refusal(S3Options { endpoint: Some(nobody.clone()), ..options(&s3) }).await;
    assert_eq!(refused.to_string(), format!("could not reach the S3 server {nobody}"));

    let refused = refusal(S3Options { retries: 99, ..options(&s3) }).await;
    assert_eq!(refused.to_string(), "the S3 setting retries must be at most 10, not 99");
}

#[tokio::test]
async fn a_server_that_hangs_is_given_up_at_the_start() {
    let s3 = S3::start();
    let proxy = FaultProxy::start(s3.address());
    proxy.set(Mode::Hang);
    let begun = Instant::now();
    let endpoint = Some(format!("http://{}", proxy.address()));
    let refused = refusal(S3Options { endpoint, stall_timeout: PATIENCE, ..options(&s3) }).await;
    assert!(matches!(refused, OpenError::Unreachable { .. }), "{refused:?}");
    assert!(begun.elapsed() < BOUND, "{:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_call_to_a_server_that_hangs_ends() {
    let (_s3, proxy, blob) = behind_proxy(|options| options.stall_timeout = PATIENCE).await;
    let scratch = Scratch::new();
    let (small, large) = (scratch.file("small", b"small"), scratch.file("large", &vec![7; 12 * MIB]));
    blob.put_file(&key("there"), &small, &|| ()).await.unwrap();
    proxy.set(Mode::Hang);

    async fn bounded<T: fmt::Debug>(what: &str, call: impl Future<Output = Result<T, BlobError>>) {
        let begun = Instant::now();
        let refused = call.await.expect_err("a server that hangs has answered");
        assert!(matches!(refused, BlobError::Unavailable { .. }), "{what}: {refused}");
        assert!(begun.elapsed() < BOUND, "{what} took {:?}", begun.elapsed());
    }
    let (there, new, new_large) = (key("there"), key("small"), key("large"));
    tokio::join!(
        bounded("put", blob.put_file(&new, &small, &|| ())),
        bounded("multipart put", blob.put_file(&new_large, &large, &|| ())),
        bounded("head", blob.head(&there)),
        bounded("open", blob.open(&there, None)),
        bounded("range", blob.open(&there, Some(1..2))),
        bounded("list", blob.list("", None, 10)),
        bounded("delete", blob.delete(&there)),
        bounded("capabilities", blob.capabilities()),
    );

    proxy.set(Mode::Refuse);
    bounded("refused head", blob.head(&key("there"))).await;
    bounded("refused put", blob.put_file(&key("small"), &small, &|| ())).await;
    proxy.set(Mode::Pass);
    blob.head(&key("there")).await.unwrap();
}

#[tokio::test]
async fn a_download_ends_with_an_error_when_the_server_hangs() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    // It answers at once, whatever the object, sends the beginning and then nothing more. The server of the other tests
    // reads a large object whole before it answers, which on a busy machine takes longer than the patience.
    let server = tokio::spawn(async move {
        let (mut connection, _) = listener.accept().await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(connection.read_u8().await.unwrap());
        }
        let moment = "last-modified: Wed, 01 Jan 2025 00:00:00 GMT";
        let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n{moment}\r\n\r\nthe beginning");
        connection.write_all(answer.as_bytes()).await.unwrap();
        // The client gives up, and closes the connection.
        let _ = connection.read_u8().await;
    });
    let blob = unopened(address, PATIENCE).await;
    let mut opened = blob.open(&key("large"), None).await.unwrap().unwrap();
    assert_eq!((opened.info.size_bytes, opened.range.clone()), (1000, 0..1000));
    let mut read = Vec::new();
    let error = loop {
        match opened.stream.try_next().await {
            Ok(chunk) => read.extend(chunk.expect("the object ends early")),
            Err(error) => break error,
        }
    };
    assert_eq!(read, b"the beginning");
    assert!(error.to_string().contains("no byte has moved for 2000 ms"), "{error}");
    drop(opened);
    server.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn credentials_that_may_only_read_are_told_by_the_first_put() {
    let s3 = S3::start();
    s3.set_read_only(true);
    let scratch = Scratch::new();
    let (small, large) = (scratch.file("small", b"small"), scratch.file("large", &vec![7; 2 * MIB]));
    for conditional_put in [ConditionalPut::Auto, ConditionalPut::Always, ConditionalPut::Never] {
        let blob = S3Blob::open(S3Options { conditional_put, ..options(&s3) }).await.unwrap();
        for file in [&small, &large] {
            let refused = blob.put_file(&key("clip"), file, &|| ()).await.unwrap_err();
            assert!(matches!(refused, BlobError::Denied { .. }), "{refused}");
            assert_eq!(refused.to_string(), "the media store does not permit storing an object");
        }
        let refused = blob.delete(&key("clip")).await.unwrap_err();
        assert_eq!(refused.to_string(), "the media store does not permit deleting an object");
        assert_eq!(blob.head(&key("clip")).await.unwrap(), None);
    }
    let blob = S3Blob::open(options(&s3)).await.unwrap();
    s3.set_read_only(false);
    assert!(blob.put_file(&key("clip"), &small, &|| ()).await.unwrap().created);
    assert_eq!(s3.keys(), ["clip"]);
}

#[tokio::test]
async fn an_upload_may_take_longer_than_its_patience_as_long_as_bytes_move() {
    const SIZE: usize = 24 * MIB;
    let patience = Duration::from_millis(800);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    // Takes 24 MiB in about 1.2 s, then says that it has them.
    let server = tokio::spawn(async move {
        let (mut connection, _) = listener.accept().await.unwrap();
        let (mut taken, mut chunk) = (0, vec![0; MIB]);
        while taken < SIZE {
            let read = connection.read_exact(&mut chunk[..MIB.min(SIZE - taken)]).await.unwrap();
            taken += read;
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        // The head of the request is more than what was left.
        connection.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await.unwrap();
        connection.shutdown().await.unwrap();
        let _ = tokio::io::copy(&mut connection, &mut tokio::io::sink()).await;
    });
    let scratch = Scratch::new();
    let blob = unopened(address, patience).await;
    let begun = Instant::now();
    let moves = Mutex::new(vec![begun]);
    let moved = || moves.lock().unwrap().push(Instant::now());
    let put = blob.put_file(&key("slow"), &scratch.file("slow", &vec![7; SIZE]), &moved).await.unwrap();
    assert!(put.created);
    assert!(begun.elapsed() > patience, "{:?}", begun.elapsed());
    // Whoever waits hears of it all along: not only how the file is hashed, but how the server takes it.
    let moves = moves.into_inner().unwrap();
    let pauses = moves.windows(2).map(|pair| pair[1] - pair[0]);
    assert!(pauses.max().unwrap() < patience);
    assert!(moves.last().unwrap().duration_since(begun) > patience / 2);
    server.await.unwrap();
}

/// A store over a server that knows one answer only.
async fn unopened(address: SocketAddr, stall_timeout: Duration) -> S3Blob {
    let options = S3Options {
        endpoint: Some(format!("http://{address}")),
        path_style: true,
        access_key_id: Some("key".to_owned()),
        secret_access_key: Some("secret".to_owned()),
        multipart_threshold_bytes: 1024 * MIB as u64,
        conditional_put: ConditionalPut::Always,
        stall_timeout,
        ..S3Options::new("clips")
    };
    let client = client::connect(&options).await.unwrap();
    S3Blob { bucket: Arc::new(Bucket { client, options, root: String::new(), support: OnceCell::new() }) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_put_whose_answer_is_lost_is_known_again() {
    for retries in [0, 2] {
        let (s3, proxy, blob) = behind_proxy(|options| options.retries = retries).await;
        let scratch = Scratch::new();
        blob.put_file(&key("first"), &scratch.file("first", b"first"), &|| ()).await.unwrap();
        proxy.cut_after(9);
        let put = blob.put_file(&key("second"), &scratch.file("second", b"second"), &|| ()).await.unwrap();
        assert!(!put.created, "with {retries} retries");
        assert_eq!(s3.keys(), ["first", "second"]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_put_whose_connection_is_lost_leaves_nothing() {
    let (s3, proxy, blob) = behind_proxy(|options| options.retries = 0).await;
    let scratch = Scratch::new();
    blob.put_file(&key("first"), &scratch.file("first", b"first"), &|| ()).await.unwrap();
    // Enough for the answers that begin an upload, and not for all that follow.
    proxy.cut_after(1000);
    let refused = blob.put_file(&key("large"), &scratch.file("large", &vec![7; 40 * MIB]), &|| ()).await.unwrap_err();
    assert!(matches!(refused, BlobError::Unavailable { .. }), "{refused}");
    assert_eq!(s3.keys(), ["first"]);
    assert_eq!(s3.unfinished_uploads(), 0);
    assert!(blob.put_file(&key("large"), &scratch.file("large", &vec![8; 6 * MIB]), &|| ()).await.unwrap().created);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_put_that_nobody_waits_for_leaves_nothing() {
    let s3 = S3::start();
    let blob = S3Blob::open(options(&s3)).await.unwrap();
    let scratch = Scratch::new();
    let file = scratch.file("large", &vec![7; 64 * MIB]);
    let put = tokio::spawn({
        let blob = blob.clone();
        async move { blob.put_file(&key("large"), &file, &|| ()).await }
    });
    holds(|| s3.unfinished_uploads() == 1).await;
    put.abort();
    assert!(put.await.unwrap_err().is_cancelled());
    holds(|| s3.unfinished_uploads() == 0).await;
    assert_eq!(s3.keys(), [] as [String; 0]);
}

/// Waits until something is so, without keeping a thread from those that make it so.
async fn holds(mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !condition() {
        assert!(Instant::now() < deadline, "it has not come about in 30 s");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_worker_and_the_zombie_that_it_replaced_one_writes_and_one_hears_of_the_conflict() {
    let (s3, proxy, zombie) = behind_proxy(|_| ()).await;
    let worker = S3Blob::open(options(&s3)).await.unwrap();
    let scratch = Scratch::new();
    let (old, new) = (scratch.file("old", &vec![1; 48 * MIB]), scratch.file("new", &vec![2; 6 * MIB]));
    let late = tokio::spawn(async move { zombie.put_file(&key("v1/clip"), &old, &|| ()).await });
    // It freezes in the middle of its upload.
    holds(|| s3.unfinished_uploads() == 1).await;
    proxy.set(Mode::Hang);
    let put = worker.put_file(&key("v1/clip"), &new, &|| ()).await.unwrap();
    assert!(put.created);
    proxy.set(Mode::Pass);
    let refused = late.await.unwrap().unwrap_err();
    assert!(matches!(refused, BlobError::Conflict { .. }), "{refused}");
    assert_eq!(worker.head(&key("v1/clip")).await.unwrap().unwrap().size_bytes, 6 * MIB as u64);
    assert_eq!(s3.unfinished_uploads(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_conditional_puts_an_object_is_looked_for_first() {
    let s3 = S3::start();
    let options = S3Options { conditional_put: ConditionalPut::Never, ..options(&s3) };
    let blob = S3Blob::open(options).await.unwrap();
    let scratch = Scratch::new();
    for (name, length) in [("small", 10), ("large", 2 * MIB)] {
        let (one, two) = (scratch.file("one", &vec![1; length]), scratch.file("two", &vec![2; length]));
        assert!(blob.put_file(&key(name), &one, &|| ()).await.unwrap().created);
        assert!(!blob.put_file(&key(name), &one, &|| ()).await.unwrap().created);
        let refused = blob.put_file(&key(name), &two, &|| ()).await.unwrap_err();
        assert!(matches!(refused, BlobError::Conflict { .. }), "{refused}");
    }
    assert_eq!(s3.keys(), ["large", "small"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_without_metadata_is_known_by_its_bytes() {
    let s3 = S3::start();
    let blob = S3Blob::open(options(&s3)).await.unwrap();
    let scratch = Scratch::new();
    fs::write(s3.root().join(s3.bucket()).join("strange"), "here before").unwrap();
    let same = blob.put_file(&key("strange"), &scratch.file("same", b"here before"), &|| ()).await.unwrap();
    assert!(!same.created);
    let refused = blob.put_file(&key("strange"), &scratch.file("other", b"not the one"), &|| ()).await.unwrap_err();
    assert!(matches!(refused, BlobError::Conflict { .. }), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stores_with_prefixes_share_a_bucket_and_see_only_their_own() {
    let s3 = S3::start();
    let with = |prefix: &str| S3Options { prefix: Some(prefix.to_owned()), ..options(&s3) };
    let (one, two) = (S3Blob::open(with("one")).await.unwrap(), S3Blob::open(with("one.two")).await.unwrap());
    let scratch = Scratch::new();
    let file = scratch.file("f", b"f");
    one.put_file(&key("v1/x"), &file, &|| ()).await.unwrap();
    two.put_file(&key("v1/y"), &file, &|| ()).await.unwrap();
    // Names that no put makes.
    fs::write(s3.root().join(s3.bucket()).join("one/a b"), "foreign").unwrap();
    assert_eq!(s3.keys(), ["one.two/v1/y", "one/a b", "one/v1/x"]);
    let listed = one.list("", None, 10).await.unwrap();
    assert_eq!(listed.into_iter().map(|info| info.key).collect::<Vec<_>>(), [key("v1/x")]);
    assert_eq!(two.head(&key("v1/x")).await.unwrap(), None);
}

#[tokio::test]
async fn a_link_lives_no_longer_than_seven_days() {
    let s3 = S3::start();
    let blob = S3Blob::open(options(&s3)).await.unwrap();
    for (life, seconds) in [(Duration::MAX, 604_800), (Duration::from_secs(90), 90), (Duration::ZERO, 1)] {
        let link = blob.link(&key("v1/x.mp4"), life, "x.mp4").await.unwrap().unwrap();
        assert!(link.contains(&format!("X-Amz-Expires={seconds}&")), "{seconds} s are not in the link");
        assert!(!link.contains(s3.secret_key()));
    }
}

#[tokio::test]
async fn a_store_shows_no_secret() {
    let s3 = S3::start();
    let blob = S3Blob::open(options(&s3)).await.unwrap();
    assert!(!format!("{blob:?}").contains(s3.secret_key()));
    let refused = refusal(S3Options { secret_access_key: Some("guessed-secret".to_owned()), ..options(&s3) }).await;
    assert!(!format!("{refused:?}").contains("guessed-secret"));
}
