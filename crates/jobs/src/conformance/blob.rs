//! The suite of [`Blob`].

use std::fs;
use std::future::poll_fn;
use std::ops::Range;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use futures_util::TryStreamExt;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::blob::{Blob, BlobError, BlobKey, Put};

/// Something that the server behind a store cannot do, and that no job depends on. The suite then asks for less.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lack {
    /// Of many puts under one key at one moment, one is done: keys are private to a claim, which is why jobs can do
    /// without.
    OneWinner,
    /// The beginning of a key is no object: no key of a job is the beginning of another.
    PlainKeys,
    /// A key of [`BlobKey::MAX_LEN`]: those of a job are far shorter.
    LongKeys,
}

/// A store without objects, and what its server cannot do.
pub struct BlobHarness {
    /// The store.
    pub blob: Arc<dyn Blob>,
    /// What its server lacks.
    pub lacks: &'static [Lack],
}

impl BlobHarness {
    fn has(&self, capability: Lack) -> bool {
        !self.lacks.contains(&capability)
    }
}

/// A folder with files to put.
struct Scratch(TempDir);

impl Scratch {
    fn new() -> Self {
        Self(TempDir::new().expect("a scratch folder can be made"))
    }

    fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.path().join(name);
        fs::write(&path, bytes).expect("a scratch file can be written");
        path
    }
}

fn key(text: &str) -> BlobKey {
    text.parse().expect("the key is legal")
}

/// Bytes in which no range looks like another.
fn pattern(length: u32) -> Vec<u8> {
    (0..length).flat_map(u32::to_be_bytes).collect()
}

async fn read(blob: &Arc<dyn Blob>, key: &BlobKey, range: Option<Range<u64>>) -> Option<Vec<u8>> {
    let opened = blob.open(key, range).await.expect("the object opens")?;
    let chunks: Vec<bytes::Bytes> = opened.stream.try_collect().await.expect("the object is read");
    let bytes = chunks.concat();
    assert_eq!(bytes.len() as u64, opened.range.end - opened.range.start);
    Some(bytes)
}

async fn keys(blob: &Arc<dyn Blob>, prefix: &str, after: Option<&BlobKey>, limit: usize) -> Vec<String> {
    let listed = blob.list(prefix, after, limit).await.expect("the objects are listed");
    listed.into_iter().map(|info| String::from(info.key)).collect()
}

/// Bytes, length and hash are those of the file, which itself stays.
pub async fn what_was_put_is_read_back(harness: &BlobHarness) {
    let blob = &harness.blob;
    let scratch = Scratch::new();
    let bytes = pattern(300_000);
    let (result, file) = (key("v1/default/video_gen_1/1-0a1b2c3d.mp4"), scratch.file("out.mp4", &bytes));
    let put = blob.put_file(&result, &file, &|| ()).await.expect("the object is put");
    assert!(put.created);
    assert_eq!(put.size_bytes, 1_200_000);
    assert_eq!(read(blob, &result, None).await.as_deref(), Some(bytes.as_slice()));
    let info = blob.head(&result).await.expect("the object is looked at").expect("it is there");
    assert_eq!((info.key, info.size_bytes), (result, 1_200_000));
    assert!(info.modified_at.unix_seconds() > 1_700_000_000);
    assert!(file.exists());

    // FIPS 180-2, appendix B.1.
    let abc = blob.put_file(&key("abc"), &scratch.file("abc", b"abc"), &|| ()).await.expect("the object is put");
    assert_eq!(abc.sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

/// No bytes are some object too.
pub async fn an_empty_object_is_an_object(harness: &BlobHarness) {
    let blob = &harness.blob;
    let scratch = Scratch::new();
    let put = blob.put_file(&key("empty"), &scratch.file("empty", b""), &|| ()).await.expect("the object is put");
    assert_eq!(put.size_bytes, 0);
    assert_eq!(read(blob, &key("empty"), None).await, Some(Vec::new()));
}

/// An object that an implementation may have to move in several pieces is the same as any other.
pub async fn a_large_object_is_whole(harness: &BlobHarness) {
    let blob = &harness.blob;
    let scratch = Scratch::new();
    let bytes = pattern(3_300_000);
    let (large, file) = (key("v1/default/large.mp4"), scratch.file("large", &bytes));
    let put = blob.put_file(&large, &file, &|| ()).await.expect("the object is put");
    assert!(put.created);
    assert_eq!(put.size_bytes, 13_200_000);
    assert!(read(blob, &large, None).await.is_some_and(|read| read == bytes), "other bytes are read than were put");
    // Across where pieces of 5 MiB would meet.
    let range = 5_242_000..5_243_000;
    assert_eq!(read(blob, &large, Some(range)).await.as_deref(), Some(&bytes[5_242_000..5_243_000]));

    let again = blob.put_file(&large, &file, &|| ()).await.expect("the object is there already");
    assert_eq!(again, Put { created: false, ..put });
    let other = scratch.file("other", &pattern(3_300_001));
    let refused = blob.put_file(&large, &other, &|| ()).await.expect_err("it is refused");
    assert!(matches!(refused, BlobError::Conflict { .. }), "{refused}");
    assert_eq!(keys(blob, "", None, 10).await, ["v1/default/large.mp4"]);
}

/// Whoever waits for a put hears again and again that bytes move, also of one that finds its object there already.
pub async fn a_large_put_is_heard_to_move(harness: &BlobHarness) {
    let blob = &harness.blob;
    let scratch = Scratch::new();
    let file = scratch.file("large", &pattern(3_300_000));
    let moves = AtomicUsize::new(0);
    for created in [true, false] {
        let moved = || {
            moves.fetch_add(1, Ordering::SeqCst);
        };
        let put = blob.put_file(&key("large"), &file, &moved).await;
        assert_eq!(put.expect("the object is put").created, created);
        let heard = moves.swap(0, Ordering::SeqCst);
        // No store moves more than 4 MiB of 13 MB at once.
        assert!(heard > 1, "it was heard to move {heard} times");
    }
}

/// Every character that a key may have, at every place, comes back as it was.
pub async fn every_legal_key_names_an_object(harness: &BlobHarness) {
    let blob = &harness.blob;
    let scratch = Scratch::new();
    let alphabet: String = ('a'..='z').chain('A'..='Z').chain('0'..='9').chain("._-".chars()).collect();
    let mut all: Vec<String> =
        ["-", "..a", ".a", "A", "_", "a", "a../.b", "b-/_c/--", "v1/A.b_c-d/0.mp4"].map(str::to_owned).to_vec();
    all.push(alphabet);
    if harness.has(Lack::LongKeys) {
        let long: String = (0..BlobKey::MAX_LEN).map(|index| if index % 200 == 199 { '/' } else { 'k' }).collect();
        all.push(long);
    }
    for text in &all {
        let put = blob.put_file(&key(text), &scratch.file("f", text.as_bytes()), &|| ()).await;
        assert!(put.expect("the object is put").created, "{text}");
    }
    all.sort_unstable();
    assert_eq!(keys(blob, "", None, 100).await, all);
    for text in &all {
        assert_eq!(read(blob, &key(text), None).await.as_deref(), Some(text.as_bytes()), "{text}");
        blob.delete(&key(text)).await.expect("the object is gone");
    }
    assert_eq!(keys(blob, "", None, 100).await, [] as [String; 0]);
}

/// A range gives exactly its bytes, at either end and within.
pub async fn a_range_is_those_bytes(harness: &BlobHarness) {
    let blob = &harness.blob;
    let scratch = Scratch::new();
    let bytes = pattern(100_000);
    blob.put_file(&key("a/b"), &scratch.file("f", &bytes), &|| ()).await.expect("the object is put");
    for range in [0..1, 0..400_000, 399_999..400_000, 131_071..262_147] {
        let (start, end) = (range.start as usize, range.end as usize);
        let opened = blob.open(&key("a/b"), Some(range.clone())).await.expect("the object opens").expect("it is there");
        assert_eq!(opened.range, range);
        assert_eq!(opened.info.size_bytes, 400_000);
        assert_eq!(read(blob, &key("a/b"), Some(range)).await.as_deref(), Some(&bytes[start..end]));
    }
}

/// A range that is empty, reversed or not within the object is an error that says so.
pub async fn a_range_that_is_not_there_is_refused(harness: &BlobHarness) {
    let blob = &harness.blob;
    let scratch = Scratch::new();
    blob.put_file(&key("ten"), &scratch.file("ten", &[7; 10]), &|| ()).await.expect("the object is put");
    for (start, end) in [(0, 11), (10, 11), (5, 5), (6, 5), (u64::MAX - 1, u64::MAX)] {
        let refused = blob.open(&key("ten"), Some(Range { start, end })).await.expect_err("the range is refused");
        assert!(matches!(refused, BlobError::RangeOutside { size_bytes: 10, .. }), "{refused}");
    }
}

/// The same bytes under the same key are our own write, tried again.
pub async fn a_put_tried_again_is_a_success(harness: &BlobHarness) {
    let blob = &harness.blob;
    let scratch = Scratch::new();
    let file = scratch.file("f", &pattern(1000));
    let first = blob.put_file(&key("x/y"), &file, &|| ()).await.expect("the object is put");
    let second = blob.put_file(&key("x/y"), &file, &|| ()).await.expect("the object is there already");
    assert!(first.created && !second.created);
    assert_eq!((first.size_bytes, first.sha256), (second.size_bytes, second.sha256));
}

/// Other bytes under the same key are refused, and the first stay.
pub async fn a_put_never_overwrites(harness: &BlobHarness) {
    let blob = &harness.blob;
    let scratch = Scratch::new();
    blob.put_file(&key("x/y"), &scratch.file("winner", b"winner"), &|| ()).await.expect("the object is put");
    let refused =
        blob.put_file(&key("x/y"), &scratch.file("zombie", b"zombie"), &|| ()).await.expect_err("it is refused");
    assert!(matches!(&refused, BlobError::Conflict { key } if key.as_str() == "x/y"), "{refused}");
    assert_eq!(read(blob, &key("x/y"), None).await.as_deref(), Some(b"winner".as_slice()));
    assert_eq!(keys(blob, "", None, 10).await, ["x/y"]);
}

/// A file that is not there is named, and no object is made.
pub async fn a_put_of_a_missing_file_leaves_nothing(harness: &BlobHarness) {
    let blob = &harness.blob;
    let scratch = Scratch::new();
    let missing = scratch.0.path().join("missing.mp4");
    let refused = blob.put_file(&key("x/y"), &missing, &|| ()).await.expect_err("there is nothing to put");
    assert!(matches!(&refused, BlobError::Source { path, .. } if *path == missing), "{refused}");
    assert_eq!(blob.head(&key("x/y")).await.expect("the object is looked at"), None);
    assert_eq!(keys(blob, "", None, 10).await, [] as [String; 0]);
}

/// Whoever stops waiting for a put, at any moment, leaves the whole object or none, and can put it again.
pub async fn an_interrupted_put_leaves_all_or_nothing(harness: &BlobHarness) {
    let blob = &harness.blob;
    let scratch = Scratch::new();
    let bytes = pattern(400_000);
    let file = scratch.file("f", &bytes);
    let mut interrupted = 0;
    for polls in [1, 2, 3, 5, 8, 13, 21, 34, 55] {
        let object = key(&format!("interrupted/{polls}"));
        if give_up_after(polls, blob.put_file(&object, &file, &|| ())).await.is_none() {
            interrupted += 1;
        }
        let seen = read(blob, &object, None).await;
        assert!(seen.is_none_or(|seen| seen == bytes), "a part of an object is read after {polls} polls");
        blob.put_file(&object, &file, &|| ()).await.expect("the object is put");
        assert!(read(blob, &object, None).await.is_some_and(|seen| seen == bytes), "after {polls} polls");
    }
    assert!(interrupted > 0, "no put was interrupted");
}

/// Polls a future up to `polls` times and drops it.
async fn give_up_after<T>(polls: u32, future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    let mut left = polls;
    poll_fn(|context| {
        left -= 1;
        match future.as_mut().poll(context) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// Of many writers of one key, one creates and the others hear of the conflict.
pub async fn of_many_puts_one_wins(harness: &BlobHarness) {
    let blob = &harness.blob;
    let scratch = Scratch::new();
    let mut puts = JoinSet::new();
    for writer in 0..8_u8 {
        let (blob, file) = (Arc::clone(blob), scratch.file(&format!("{writer}"), &[writer; 10_000]));
        puts.spawn(async move { (writer, blob.put_file(&key("race/x"), &file, &|| ()).await) });
    }
    let (won, lost): (Vec<_>, Vec<_>) = puts.join_all().await.into_iter().partition(|(_, put)| put.is_ok());
    assert!(lost.iter().all(|(_, put)| matches!(put, Err(BlobError::Conflict { .. }))), "{lost:?}");
    let read = read(blob, &key("race/x"), None).await.expect("the object is there");
    if harness.has(Lack::OneWinner) {
        let winners: Vec<u8> = won.iter().map(|(writer, _)| *writer).collect();
        assert_eq!(winners.len(), 1, "the server lets several puts of one key pass: {winners:?}");
        assert_eq!(read, vec![winners[0]; 10_000]);
    } else {
        assert!(!won.is_empty());
        assert_eq!(read, vec![read[0]; 10_000], "the object is of several writers");
    }
}

/// An object that is not there is none, not an error; nor is the folder of another an object.
pub async fn a_missing_object_is_none(harness: &BlobHarness) {
    let blob = &harness.blob;
    let scratch = Scratch::new();
    blob.put_file(&key("a/b/c"), &scratch.file("f", b"f"), &|| ()).await.expect("the object is put");
    let folders: &[&str] = if harness.has(Lack::PlainKeys) { &["a", "a/b"] } else { &[] };
    for missing in ["nothing", "a/nothing", "a/b/c/d"].iter().chain(folders) {
        assert_eq!(blob.head(&key(missing)).await.expect("the object is looked at"), None, "{missing}");
        assert!(blob.open(&key(missing), None).await.expect("the object is looked at").is_none(), "{missing}");
    }
}

/// What is not there is already deleted, and nothing beside it is touched.
pub async fn deleting_is_idempotent(harness: &BlobHarness) {
    let blob = &harness.blob;
    let scratch = Scratch::new();
    let file = scratch.file("f", b"f");
    for there in ["a/b/c", "a/b/d"] {
        blob.put_file(&key(there), &file, &|| ()).await.expect("the object is put");
    }
    let folders: &[&str] = if harness.has(Lack::PlainKeys) { &["a/b", "a"] } else { &[] };
    for deleted in ["a/b/c", "a/b/c", "a/b/d/e", "nothing/at/all"].iter().chain(folders) {
        blob.delete(&key(deleted)).await.expect("the object is gone");
    }
    assert_eq!(keys(blob, "", None, 10).await, ["a/b/d"]);
}

/// A key is free again after its object was deleted.
pub async fn a_deleted_key_can_be_put_again(harness: &BlobHarness) {
    let blob = &harness.blob;
    let scratch = Scratch::new();
    blob.put_file(&key("a/b"), &scratch.file("one", b"one"), &|| ()).await.expect("the object is put");
    blob.delete(&key("a/b")).await.expect("the object is gone");
    let put = blob.put_file(&key("a/b"), &scratch.file("two", b"two"), &|| ()).await.expect("the object is put");
    assert!(put.created);
    assert_eq!(read(blob, &key("a/b"), None).await.as_deref(), Some(b"two".as_slice()));
}

/// A download that is under way is never given wrong or fewer bytes in silence: it ends whole or with an error.
pub async fn an_object_can_be_read_to_its_end_while_it_is_deleted(harness: &BlobHarness) {
    let blob = &harness.blob;
    let scratch = Scratch::new();
    let bytes = pattern(500_000);
    blob.put_file(&key("a/b"), &scratch.file("f", &bytes), &|| ()).await.expect("the object is put");
    let mut opened = blob.open(&key("a/b"), None).await.expect("the object opens").expect("it is there");
    let first = opened.stream.try_next().await.expect("the object is read").expect("it is not empty");
    blob.delete(&key("a/b")).await.expect("the object is gone");
    let rest: Result<Vec<bytes::Bytes>, _> = opened.stream.try_collect().await;
    if let Ok(rest) = rest {
        assert_eq!([first.as_ref(), rest.concat().as_slice()].concat(), bytes);
    }
    assert_eq!(blob.head(&key("a/b")).await.expect("the object is looked at"), None);
}

/// A list is in the order of the keys as text, page after page, and keeps to its prefix.
pub async fn a_list_is_ordered_and_goes_on(harness: &BlobHarness) {
    let blob = &harness.blob;
    let scratch = Scratch::new();
    let file = scratch.file("f", b"four");
    // In this order as text: "-" and "." sort before "/", letters after it.
    let all = ["a-b", "a.b", "a/b/c", "a/b0", "a/c", "a0", "b/a", "b/a.mp4"];
    for there in all.iter().rev() {
        blob.put_file(&key(there), &file, &|| ()).await.expect("the object is put");
    }
    assert_eq!(keys(blob, "", None, 100).await, all);
    assert_eq!(keys(blob, "a/", None, 100).await, ["a/b/c", "a/b0", "a/c"]);
    assert_eq!(keys(blob, "a/b", None, 100).await, ["a/b/c", "a/b0"]);
    assert_eq!(keys(blob, "zzz", None, 100).await, [] as [String; 0]);
    assert_eq!(keys(blob, "", None, 0).await, [] as [String; 0]);

    let mut paged = Vec::new();
    let mut after: Option<BlobKey> = None;
    loop {
        let page = blob.list("", after.as_ref(), 3).await.expect("the objects are listed");
        assert!(page.iter().all(|info| info.size_bytes == 4));
        let Some(last) = page.last() else {
            break;
        };
        after = Some(last.key.clone());
        paged.extend(page.into_iter().map(|info| String::from(info.key)));
    }
    assert_eq!(paged, all);
}

/// A list longer than what a server gives at once (1,000 at S3) is whole, and no longer than asked for.
pub async fn a_list_is_as_long_as_it_must_be(harness: &BlobHarness) {
    const OBJECTS: usize = 1_050;
    const WRITERS: usize = 16;
    let blob = &harness.blob;
    let scratch = Scratch::new();
    let file = scratch.file("f", b"f");
    let all: Vec<String> = (0..OBJECTS).map(|number| format!("many/{number:04}")).collect();
    let mut puts = JoinSet::new();
    for share in all.chunks(OBJECTS.div_ceil(WRITERS)) {
        let (blob, share, file) = (Arc::clone(blob), share.to_vec(), file.clone());
        puts.spawn(async move {
            for text in share {
                blob.put_file(&key(&text), &file, &|| ()).await.expect("the object is put");
            }
        });
    }
    puts.join_all().await;
    assert_eq!(keys(blob, "many/", None, 2 * OBJECTS).await, all);
    assert_eq!(keys(blob, "", None, OBJECTS - 1).await, all[..OBJECTS - 1]);
    assert_eq!(keys(blob, "", Some(&key(&all[9])), OBJECTS).await, all[10..]);
}

/// Where there are links, one gives the object to somebody without credentials, under the name that it was asked for.
pub async fn a_link_gives_the_object_under_its_name(harness: &BlobHarness) {
    let blob = &harness.blob;
    let scratch = Scratch::new();
    blob.put_file(&key("v1/x/clip.mp4"), &scratch.file("f", b"the clip"), &|| ()).await.expect("the object is put");
    let life = Duration::from_secs(60);
    let link = blob.link(&key("v1/x/clip.mp4"), life, "a name.mp4").await.expect("the object is linked");
    let missing = blob.link(&key("v1/x/missing"), life, "missing").await.expect("what is not there is linked too");
    assert_eq!(link.is_some(), missing.is_some());
    let Some(link) = link else {
        return;
    };
    let (head, body) = fetch(&link).await;
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    assert_eq!(body, b"the clip");
    let head = head.to_ascii_lowercase();
    assert!(head.contains("content-disposition: attachment; filename=\"a name.mp4\""), "{head}");
    assert!(head.contains("content-type: video/mp4"), "{head}");
}

/// Gets a URL as a stranger would, and returns the head of the answer and its body.
async fn fetch(url: &str) -> (String, Vec<u8>) {
    let rest = url.strip_prefix("http://").expect("a test's server has no TLS");
    let (host, target) = rest.split_once('/').expect("an object has a path");
    let mut connection = TcpStream::connect(host).await.expect("the server is there");
    let request = format!("GET /{target} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
    connection.write_all(request.as_bytes()).await.expect("the request is sent");
    let mut answer = Vec::new();
    connection.read_to_end(&mut answer).await.expect("the answer is read");
    let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").expect("the answer has a head");
    let body = answer.split_off(end + 4);
    (String::from_utf8(answer).expect("a head is text"), body)
}
