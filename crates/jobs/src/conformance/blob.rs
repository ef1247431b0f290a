//! The suite of [`Blob`].

use std::fs;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use futures_util::TryStreamExt;
use tempfile::TempDir;
use tokio::task::JoinSet;

use crate::blob::{Blob, BlobError, BlobKey};

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
pub async fn what_was_put_is_read_back(blob: Arc<dyn Blob>) {
    let scratch = Scratch::new();
    let bytes = pattern(300_000);
    let (result, file) = (key("v1/default/video_gen_1/1-0a1b2c3d.mp4"), scratch.file("out.mp4", &bytes));
    let put = blob.put_file(&result, &file).await.expect("the object is put");
    assert!(put.created);
    assert_eq!(put.size_bytes, 1_200_000);
    assert_eq!(read(&blob, &result, None).await.as_deref(), Some(bytes.as_slice()));
    let info = blob.head(&result).await.expect("the object is looked at").expect("it is there");
    assert_eq!((info.key, info.size_bytes), (result, 1_200_000));
    assert!(info.modified_at.unix_seconds() > 1_700_000_000);
    assert!(file.exists());

    // FIPS 180-2, appendix B.1.
    let abc = blob.put_file(&key("abc"), &scratch.file("abc", b"abc")).await.expect("the object is put");
    assert_eq!(abc.sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

/// No bytes are some object too.
pub async fn an_empty_object_is_an_object(blob: Arc<dyn Blob>) {
    let scratch = Scratch::new();
    let put = blob.put_file(&key("empty"), &scratch.file("empty", b"")).await.expect("the object is put");
    assert_eq!(put.size_bytes, 0);
    assert_eq!(read(&blob, &key("empty"), None).await, Some(Vec::new()));
}

/// A range gives exactly its bytes, at either end and within.
pub async fn a_range_is_those_bytes(blob: Arc<dyn Blob>) {
    let scratch = Scratch::new();
    let bytes = pattern(100_000);
    blob.put_file(&key("a/b"), &scratch.file("f", &bytes)).await.expect("the object is put");
    for range in [0..1, 0..400_000, 399_999..400_000, 131_071..262_147] {
        let (start, end) = (range.start as usize, range.end as usize);
        let opened = blob.open(&key("a/b"), Some(range.clone())).await.expect("the object opens").expect("it is there");
        assert_eq!(opened.range, range);
        assert_eq!(opened.info.size_bytes, 400_000);
        assert_eq!(read(&blob, &key("a/b"), Some(range)).await.as_deref(), Some(&bytes[start..end]));
    }
}

/// A range that is empty, reversed or not within the object is an error that says so.
pub async fn a_range_that_is_not_there_is_refused(blob: Arc<dyn Blob>) {
    let scratch = Scratch::new();
    blob.put_file(&key("ten"), &scratch.file("ten", &[7; 10])).await.expect("the object is put");
    for (start, end) in [(0, 11), (10, 11), (5, 5), (6, 5), (u64::MAX - 1, u64::MAX)] {
        let refused = blob.open(&key("ten"), Some(Range { start, end })).await.expect_err("the range is refused");
        assert!(matches!(refused, BlobError::RangeOutside { size_bytes: 10, .. }), "{refused}");
    }
}

/// The same bytes under the same key are our own write, tried again.
pub async fn a_put_tried_again_is_a_success(blob: Arc<dyn Blob>) {
    let scratch = Scratch::new();
    let file = scratch.file("f", &pattern(1000));
    let first = blob.put_file(&key("x/y"), &file).await.expect("the object is put");
    let second = blob.put_file(&key("x/y"), &file).await.expect("the object is there already");
    assert!(first.created && !second.created);
    assert_eq!((first.size_bytes, first.sha256), (second.size_bytes, second.sha256));
}

/// Other bytes under the same key are refused, and the first stay.
pub async fn a_put_never_overwrites(blob: Arc<dyn Blob>) {
    let scratch = Scratch::new();
    blob.put_file(&key("x/y"), &scratch.file("winner", b"winner")).await.expect("the object is put");
    let refused = blob.put_file(&key("x/y"), &scratch.file("zombie", b"zombie")).await.expect_err("it is refused");
    assert!(matches!(&refused, BlobError::Conflict { key } if key.as_str() == "x/y"), "{refused}");
    assert_eq!(read(&blob, &key("x/y"), None).await.as_deref(), Some(b"winner".as_slice()));
    assert_eq!(keys(&blob, "", None, 10).await, ["x/y"]);
}

/// A file that is not there is named, and no object is made.
pub async fn a_put_of_a_missing_file_leaves_nothing(blob: Arc<dyn Blob>) {
    let scratch = Scratch::new();
    let missing = scratch.0.path().join("missing.mp4");
    let refused = blob.put_file(&key("x/y"), &missing).await.expect_err("there is nothing to put");
    assert!(matches!(&refused, BlobError::Source { path, .. } if *path == missing), "{refused}");
    assert_eq!(blob.head(&key("x/y")).await.expect("the object is looked at"), None);
    assert_eq!(keys(&blob, "", None, 10).await, [] as [String; 0]);
}

/// Of many writers of one key, one creates and the others hear of the conflict.
pub async fn of_many_puts_one_wins(blob: Arc<dyn Blob>) {
    let scratch = Scratch::new();
    let mut puts = JoinSet::new();
    for writer in 0..8_u8 {
        let (blob, file) = (Arc::clone(&blob), scratch.file(&format!("{writer}"), &[writer; 10_000]));
        puts.spawn(async move { (writer, blob.put_file(&key("race/x"), &file).await) });
    }
    let (won, lost): (Vec<_>, Vec<_>) = puts.join_all().await.into_iter().partition(|(_, put)| put.is_ok());
    assert_eq!(won.len(), 1);
    assert!(lost.iter().all(|(_, put)| matches!(put, Err(BlobError::Conflict { .. }))), "{lost:?}");
    assert_eq!(read(&blob, &key("race/x"), None).await, Some(vec![won[0].0; 10_000]));
}

/// An object that is not there is none, not an error; nor is the folder of another an object.
pub async fn a_missing_object_is_none(blob: Arc<dyn Blob>) {
    let scratch = Scratch::new();
    blob.put_file(&key("a/b/c"), &scratch.file("f", b"f")).await.expect("the object is put");
    for missing in ["nothing", "a/nothing", "a", "a/b", "a/b/c/d"] {
        assert_eq!(blob.head(&key(missing)).await.expect("the object is looked at"), None, "{missing}");
        assert!(blob.open(&key(missing), None).await.expect("the object is looked at").is_none(), "{missing}");
    }
}

/// What is not there is already deleted, and nothing beside it is touched.
pub async fn deleting_is_idempotent(blob: Arc<dyn Blob>) {
    let scratch = Scratch::new();
    let file = scratch.file("f", b"f");
    for there in ["a/b/c", "a/b/d"] {
        blob.put_file(&key(there), &file).await.expect("the object is put");
    }
    for deleted in ["a/b/c", "a/b/c", "a/b", "a", "a/b/d/e", "nothing/at/all"] {
        blob.delete(&key(deleted)).await.expect("the object is gone");
    }
    assert_eq!(keys(&blob, "", None, 10).await, ["a/b/d"]);
}

/// A key is free again after its object was deleted.
pub async fn a_deleted_key_can_be_put_again(blob: Arc<dyn Blob>) {
    let scratch = Scratch::new();
    blob.put_file(&key("a/b"), &scratch.file("one", b"one")).await.expect("the object is put");
    blob.delete(&key("a/b")).await.expect("the object is gone");
    let put = blob.put_file(&key("a/b"), &scratch.file("two", b"two")).await.expect("the object is put");
    assert!(put.created);
    assert_eq!(read(&blob, &key("a/b"), None).await.as_deref(), Some(b"two".as_slice()));
}

/// A download that is under way is never given wrong or fewer bytes in silence: it ends whole or with an error.
pub async fn an_object_can_be_read_to_its_end_while_it_is_deleted(blob: Arc<dyn Blob>) {
    let scratch = Scratch::new();
    let bytes = pattern(500_000);
    blob.put_file(&key("a/b"), &scratch.file("f", &bytes)).await.expect("the object is put");
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
pub async fn a_list_is_ordered_and_goes_on(blob: Arc<dyn Blob>) {
    let scratch = Scratch::new();
    let file = scratch.file("f", b"four");
    // In this order as text: "-" and "." sort before "/", letters after it.
    let all = ["a-b", "a.b", "a/b/c", "a/b0", "a/c", "a0", "b/a", "b/a.mp4"];
    for there in all.iter().rev() {
        blob.put_file(&key(there), &file).await.expect("the object is put");
    }
    assert_eq!(keys(&blob, "", None, 100).await, all);
    assert_eq!(keys(&blob, "a/", None, 100).await, ["a/b/c", "a/b0", "a/c"]);
    assert_eq!(keys(&blob, "a/b", None, 100).await, ["a/b/c", "a/b0"]);
    assert_eq!(keys(&blob, "zzz", None, 100).await, [] as [String; 0]);
    assert_eq!(keys(&blob, "", None, 0).await, [] as [String; 0]);

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
