//! What an S3 server can and cannot do, found out by trying.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use aws_sdk_s3::primitives::ByteStream;
use aws_smithy_runtime_api::client::http::HttpConnector;
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use clapboard_jobs::{BlobError, BlobKey};
use futures_util::future::join_all;

use super::Bucket;
use super::error::{Failure, chain};
use super::multipart::Upload;
use super::put::{Object, Part};
use super::support::{self, PutSupport};
use super::trial::{Trial, sum};
use super::{client, link, list, put, read};

/// How many writers meet under one key, and how often.
const WRITERS: usize = 8;
const MEETINGS: usize = 4;

/// How much each of them writes: enough that they are under way at the same time.
static BYTES: [u8; 64 * 1024] = [7; 64 * 1024];

/// Something that a store wants of its server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Capability {
    /// A put with `If-None-Match: *` is refused where an object lies.
    IfNoneMatch,
    /// Of many such puts at one moment, one is done.
    OneWinner,
    /// A multipart upload with `If-None-Match: *` is not completed where an object lies.
    IfNoneMatchMultipart,
    /// A put with a wrong `x-amz-checksum-sha256` is refused.
    Checksum,
    /// Metadata of an object is kept.
    Metadata,
    /// Some bytes of an object can be asked for.
    Range,
    /// A list is in the order of the keys as bytes, and goes on after any key.
    OrderedList,
    /// The beginning of a key is no object, as a folder is on a disk.
    PlainKeys,
    /// A key may have 512 bytes besides the prefix.
    LongKeys,
    /// A presigned URL gives an object to anybody, under the name that it says.
    Links,
}

impl Capability {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::IfNoneMatch,
        Self::OneWinner,
        Self::IfNoneMatchMultipart,
        Self::Checksum,
        Self::Metadata,
        Self::Range,
        Self::OrderedList,
        Self::PlainKeys,
        Self::LongKeys,
        Self::Links,
    ];

    /// Returns what it means that a server lacks it.
    pub const fn without_it(self) -> &'static str {
        match self {
            Self::IfNoneMatch => {
                "an object is looked for before it is put; of two writers of one key the later one wins"
            }
            Self::OneWinner => {
                "of two writers of one key at one moment the later one wins; keys are private to a claim"
            }
            Self::IfNoneMatchMultipart => "a large object is looked for before it is put, and not again at its end",
            Self::Checksum => "bytes that change on the way are not noticed unless the connection is encrypted",
            Self::Metadata => "a put that is tried again reads the object to know it",
            Self::Range => "a player cannot seek in a video, and a download cannot go on",
            Self::OrderedList => "objects of nobody cannot be swept: the bucket needs a lifecycle rule",
            Self::PlainKeys => "harmless, no key of ours is the beginning of another",
            Self::LongKeys => "harmless as long as tenants' names are short",
            Self::Links => "downloads pass through the API",
        }
    }

    /// Tells whether a store is of no use without it.
    pub const fn is_needed(self) -> bool {
        matches!(self, Self::Range | Self::OrderedList)
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::IfNoneMatch => "If-None-Match on a put",
            Self::OneWinner => "one winner of puts at one moment",
            Self::IfNoneMatchMultipart => "If-None-Match on a multipart upload",
            Self::Checksum => "SHA-256 checksums",
            Self::Metadata => "metadata",
            Self::Range => "byte ranges",
            Self::OrderedList => "lists in the order of the keys",
            Self::PlainKeys => "keys without folders",
            Self::LongKeys => "long keys",
            Self::Links => "presigned URLs",
        })
    }
}

/// What a server can do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capabilities {
    /// [`Capability::IfNoneMatch`].
    pub if_none_match: bool,
    /// [`Capability::OneWinner`].
    pub one_winner: bool,
    /// [`Capability::IfNoneMatchMultipart`].
    pub if_none_match_multipart: bool,
    /// [`Capability::Checksum`].
    pub checksum: bool,
    /// [`Capability::Metadata`].
    pub metadata: bool,
    /// [`Capability::Range`].
    pub range: bool,
    /// [`Capability::OrderedList`].
    pub ordered_list: bool,
    /// [`Capability::PlainKeys`].
    pub plain_keys: bool,
    /// [`Capability::LongKeys`].
    pub long_keys: bool,
    /// [`Capability::Links`].
    pub links: bool,
}

impl Capabilities {
    /// Tells whether the server has it.
    pub const fn has(&self, capability: Capability) -> bool {
        match capability {
            Capability::IfNoneMatch => self.if_none_match,
            Capability::OneWinner => self.one_winner,
            Capability::IfNoneMatchMultipart => self.if_none_match_multipart,
            Capability::Checksum => self.checksum,
            Capability::Metadata => self.metadata,
            Capability::Range => self.range,
            Capability::OrderedList => self.ordered_list,
            Capability::PlainKeys => self.plain_keys,
            Capability::LongKeys => self.long_keys,
            Capability::Links => self.links,
        }
    }

    /// Returns what the server lacks.
    pub fn lacking(&self) -> impl Iterator<Item = Capability> {
        Capability::ALL.into_iter().filter(|&capability| !self.has(capability))
    }
}

/// Tries everything, and removes what it has put whether or not the trials came to their end.
pub(super) async fn capabilities(bucket: &Arc<Bucket>) -> Result<Capabilities, BlobError> {
    let failed = |failure: Failure| failure.blob_error("trying out the server");
    let trial = Trial::new(bucket);
    let tried = try_all(&trial, bucket).await;
    let cleaned = trial.clean().await;
    let tried = tried.map_err(failed)?;
    cleaned.map_err(failed)?;
    Ok(tried)
}

async fn try_all(trial: &Trial<'_>, bucket: &Arc<Bucket>) -> Result<Capabilities, Failure> {
    let support = support::probe(trial).await?;
    Ok(Capabilities {
        if_none_match: support.conditional,
        one_winner: support.conditional && try_meetings(trial, support).await?,
        if_none_match_multipart: support.conditional && try_multipart(trial, bucket, support).await?,
        checksum: support.checksum && try_checksum(trial, support).await?,
        metadata: try_metadata(trial).await?,
        range: try_range(trial).await?,
        ordered_list: try_list(trial, support).await?,
        plain_keys: try_folders(trial).await?,
        long_keys: try_long_key(trial, support).await?,
        links: try_link(trial).await?,
    })
}

/// Turns a refusal, which is an answer here, into false. No answer stays an error.
fn unless_refused(result: Result<bool, Failure>) -> Result<bool, Failure> {
    match result {
        Err(Failure::Refused { .. } | Failure::Nonsense { .. }) => Ok(false),
        other => other,
    }
}

async fn try_meetings(trial: &Trial<'_>, support: PutSupport) -> Result<bool, Failure> {
    for meeting in 0..MEETINGS {
        let name = format!("meeting-{meeting}");
        // No two of them write the same bytes.
        let puts = (0..WRITERS).map(|writer| trial.put(&name, &BYTES[writer..], support));
        let mut winners = 0;
        for put in join_all(puts).await {
            match put {
                Ok(()) => winners += 1,
                Err(failure) if failure.is_precondition_failed() || failure.is_concurrent() => {}
                Err(failure) => return Err(failure),
            }
        }
        if winners != 1 {
            return Ok(false);
        }
    }
    Ok(true)
}

async fn try_multipart(trial: &Trial<'_>, bucket: &Arc<Bucket>, support: PutSupport) -> Result<bool, Failure> {
    // "put" is there since the first trial, "parts" is not.
    let free = send_in_parts(bucket, &trial.object("parts", b"parts"), support).await;
    let taken = send_in_parts(bucket, &trial.object("put", b"parts"), support).await;
    match (free, taken) {
        (Ok(()), Err(failure)) if failure.is_precondition_failed() => Ok(true),
        (free, taken) => unless_refused(free.and(taken).map(|()| false)),
    }
}

async fn send_in_parts(bucket: &Arc<Bucket>, object: &Object, support: PutSupport) -> Result<(), Failure> {
    let upload = Upload::begin(bucket, object, support).await?;
    let part = Part::only(object);
    let sent = match upload.send_bytes(part, ByteStream::from_static(b"parts"), support).await {
        Ok(part) => upload.complete(vec![part], support).await,
        Err(failure) => Err(failure),
    };
    upload.abort().await;
    sent
}

async fn try_checksum(trial: &Trial<'_>, support: PutSupport) -> Result<bool, Failure> {
    let wrong = Object { sha256: sum(b"other"), ..trial.object("checksum", b"bytes") };
    let sent = put::send(trial.bucket, &wrong, ByteStream::from_static(b"bytes"), support).await;
    match sent {
        Ok(()) => Ok(false),
        Err(Failure::Refused { .. }) => Ok(true),
        Err(failure) => Err(failure),
    }
}

async fn try_metadata(trial: &Trial<'_>) -> Result<bool, Failure> {
    let found = read::look(trial.bucket, &trial.path("put")).await?;
    let kept = found.and_then(|found| found.metadata).unwrap_or_default();
    Ok(put::metadata(&trial.object("put", b"first")).keys().all(|name| kept.contains_key(name)))
}

async fn try_range(trial: &Trial<'_>) -> Result<bool, Failure> {
    let request = trial.bucket.client.get_object().bucket(&trial.bucket.options.bucket);
    let output = request.key(trial.path("put")).range("bytes=1-3").send().await.map_err(Failure::of);
    let output = match output {
        Ok(output) => output,
        Err(failure) => return unless_refused(Err(failure)),
    };
    // The first trial has left "first" or "second".
    let range = output.content_range.unwrap_or_default();
    let bytes = output.body.collect().await.map_err(|error| Failure::NoAnswer { text: chain(&error) })?.to_vec();
    Ok(range.starts_with("bytes 1-3/") && (bytes == b"irs" || bytes == b"eco"))
}

async fn try_list(trial: &Trial<'_>, support: PutSupport) -> Result<bool, Failure> {
    // In this order as bytes, and in another one where folders are listed before or after files.
    let names = ["list/a-b", "list/a.b", "list/a/b", "list/a0", "list/b"];
    for name in names.iter().rev() {
        trial.put(name, b"list", support).await?;
    }
    let keys: Vec<String> = names.iter().map(|name| trial.key(name)).collect();
    let (prefix, _) = keys[0].rsplit_once('/').expect("the name has a slash");
    unless_refused(list_in_pages(trial, &format!("{prefix}/"), &keys).await)
}

async fn list_in_pages(trial: &Trial<'_>, prefix: &str, keys: &[String]) -> Result<bool, Failure> {
    let mut after: Option<BlobKey> = None;
    for pair in keys.chunks(2) {
        let page = list::list(trial.bucket, prefix, after.as_ref(), 2).await?;
        if page.iter().map(|info| info.key.as_str()).ne(pair.iter().map(String::as_str)) {
            return Ok(false);
        }
        after = page.into_iter().last().map(|info| info.key);
    }
    Ok(true)
}

async fn try_folders(trial: &Trial<'_>) -> Result<bool, Failure> {
    // "list/a/b" is there since the list was tried.
    let found = read::look(trial.bucket, &trial.path("list/a")).await;
    unless_refused(found.map(|found| found.is_none()))
}

async fn try_long_key(trial: &Trial<'_>, support: PutSupport) -> Result<bool, Failure> {
    match trial.put(&trial.longest_name(), b"long", support).await {
        Ok(()) => Ok(true),
        Err(Failure::Refused { .. }) => Ok(false),
        Err(failure) => Err(failure),
    }
}

async fn try_link(trial: &Trial<'_>) -> Result<bool, Failure> {
    let key: BlobKey = trial.key("put").parse().map_err(|_| Failure::nonsense("a trial has a wrong key"))?;
    let url = link::link(trial.bucket, &key, Duration::from_secs(60), "trial.txt").await?;
    let request = HttpRequest::get(url).map_err(|error| Failure::Unsent { text: chain(&error) })?;
    let answer = client::anonymous(&trial.bucket.options).call(request).await;
    let mut answer = answer.map_err(|error| Failure::NoAnswer { text: chain(&error) })?;
    let is_named = answer.headers().get("content-disposition").is_some_and(|header| header.contains("trial.txt"));
    let body = ByteStream::new(answer.take_body()).collect().await;
    let bytes = body.map_err(|error| Failure::NoAnswer { text: chain(&error) })?.to_vec();
    Ok(answer.status().is_success() && is_named && (bytes == b"first" || bytes == b"second"))
}
