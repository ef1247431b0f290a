//! What went wrong with an attempt, and what that means for its job: decided here and nowhere else.

use std::io;
use std::time::Duration;

use clapboard_engine::{GenerateError, LoadError};
use clapboard_h3::{Partition, SpecError};
use clapboard_jobs::blob::InvalidKey;
use clapboard_jobs::{BlobError, ErrorClass, FailureCode, JobError, JobId, Phase};
use clapboard_media::reference::ReferenceError;
use clapboard_media::{Error as MediaError, decode};

use crate::error::Error;
use crate::machine::media_store::is_of_worker;
use crate::progress::watch::Stall;

/// Why an attempt has no result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AttemptError {
    /// The stored specification cannot be run.
    #[error("could not read the job's specification")]
    Spec(#[source] SpecError),
    /// The attempt's folder could not be made.
    #[error("could not make a scratch folder")]
    Folder(#[source] io::Error),
    /// The specification names an input as no object can be named.
    #[error("an input of the job has no name that an object can have")]
    InputName(#[source] InvalidKey),
    /// An input is not in the media store.
    #[error("an input of the job is not there any more")]
    InputGone,
    /// An input is larger than any that is accepted.
    #[error("an input of the job has {size_bytes} bytes, and at most {limit_bytes} are accepted")]
    InputTooLarge {
        /// Its size.
        size_bytes: u64,
        /// The most that its kind may have.
        limit_bytes: u64,
    },
    /// An input has other bytes than those that were accepted.
    #[error("an input of the job has changed in the media store")]
    InputAltered,
    /// An input was not fetched.
    #[error("could not fetch an input of the job")]
    FetchInput(#[source] BlobError),
    /// An input that was fetched was not written to the scratch folder.
    #[error("could not keep an input of the job")]
    KeepInput(#[source] io::Error),
    /// An input was not decoded.
    #[error("input {number} of the job cannot be used")]
    Input {
        /// Its place among the inputs, from 1.
        number: usize,
        /// What is wrong.
        #[source]
        source: ReferenceError,
    },
    /// Decoding an input panicked.
    #[error("an input of the job could not be decoded, unexpectedly")]
    InputPanicked,
    /// Decoding an input stopped moving, and was ended.
    #[error("decoding input {number} of the job made no progress for {limit:?}")]
    InputStalled {
        /// Its place among the inputs, from 1.
        number: usize,
        /// The stall limit.
        limit: Duration,
        /// It could not be ended: its thread goes on or hangs.
        stuck: bool,
    },
    /// The engine did not finish.
    #[error("could not generate the video")]
    Generate(#[source] GenerateError),
    /// The video was not encoded.
    #[error("could not encode the video")]
    Encode(#[source] MediaError),
    /// The result was not stored.
    #[error("could not store the video")]
    Upload(#[source] BlobError),
    /// The engine, or the upload, stopped moving.
    #[error("no progress was made for {:?} in {}", .0.limit, .0.phase)]
    Wedged(Stall),
    /// The engine is not free as soon as was thought when the job was claimed.
    #[error("the engine is not free as soon as was predicted")]
    NotFree,
    /// The attempt was told to stop.
    #[error("the attempt was stopped")]
    Stopped,
}

impl AttemptError {
    /// What the error means for the job.
    ///
    /// The engine is deterministic, so what it refuses or fails at it will again; processes, disks and the network
    /// are not. What this worker lacks, such as room on its disk or its GPU, leave to put objects into the media store, the weights of a
    /// partition, or a job's inputs while the media store is away, no job is blamed for: another worker may have it, or this
    /// one later. A finished video that could not be stored counts as an attempt. An engine that panicked or hung is given
    /// another chance, since attempts are counted; so is a decoder.
    pub(crate) fn class(&self) -> ErrorClass {
        let code = self.code();
        let fatal = ErrorClass::Fatal { code };
        let retryable = ErrorClass::Retryable { after: None };
        match self {
            Self::Spec(_) | Self::InputName(_) | Self::InputGone | Self::InputTooLarge { .. } => fatal,
            // Before what is this machine's own: it is well for all other jobs, and there may be no worker that can read it.
            Self::Input { source, .. } if may_pass(source) => retryable,
            Self::Input { source, .. } if source.is_of_machine() => ErrorClass::Unwell,
            Self::Input { .. } => fatal,
            Self::Generate(error) => match error {
                GenerateError::Stopped(_) => ErrorClass::Interrupted,
                GenerateError::Sink(_) => match media_error(error) {
                    Some(error) if is_content(error) => fatal,
                    Some(error) if error.is_of_machine() => ErrorClass::Unwell,
                    _ => retryable,
                },
                // No fault of the job's as far as anybody knows; another GPU may do better at what a driver or a library
                // failed at.
                GenerateError::DeviceLost(_) | GenerateError::OutOfMemory(_) => ErrorClass::Unwell,
                GenerateError::Device(_) | GenerateError::Panicked { .. } => retryable,
                // Another worker may have the weights.
                GenerateError::Load { .. } => ErrorClass::Unwell,
                _ => fatal,
            },
            Self::Encode(error) if is_content(error) => fatal,
            Self::Folder(_) | Self::KeepInput(_) | Self::FetchInput(_) => ErrorClass::Unwell,
            Self::Encode(error) if error.is_of_machine() => ErrorClass::Unwell,
            Self::Upload(error) if is_of_worker(error) => ErrorClass::Unwell,
            Self::Encode(_)
            | Self::Upload(_)
            | Self::InputAltered
            | Self::InputPanicked
            | Self::InputStalled { .. }
            | Self::Wedged(_) => retryable,
            Self::NotFree => ErrorClass::Premature,
            Self::Stopped => ErrorClass::Interrupted,
        }
    }

    /// The partition whose weights could not be loaded, if that is what went wrong.
    pub(crate) fn lacks(&self) -> Option<Partition> {
        match self {
            Self::Generate(GenerateError::Load { partition, .. }) => Some(*partition),
            _ => None,
        }
    }

    /// Why the worker's process cannot go on after the error of `job`, if it cannot: weights are others than those that its
    /// engine speaks of, the GPU is lost to it, or a thread does not come back. An attempt that is [wedged](Self::Wedged) has ways of its own.
    pub(crate) fn ends_worker(&self, job: JobId) -> Option<Error> {
        match self {
            Self::Generate(GenerateError::Load { source, .. }) => match **source {
                LoadError::Changed { partition } => Some(Error::Changed { partition }),
                _ => None,
            },
            Self::Generate(GenerateError::DeviceLost(_)) => Some(Error::DeviceLost { job }),
            Self::InputStalled { limit, stuck: true, .. } => {
                Some(Error::Wedged { job, phase: Phase::Prepare, limit: *limit })
            }
            _ => None,
        }
    }

    /// What a client is told should this have been the last attempt: no path, no address, no chain of causes.
    pub(crate) fn job_error(&self) -> JobError {
        let message = match self {
            Self::Generate(GenerateError::Task { task, .. }) => format!("this service cannot run {task}"),
            // Its source tells the rule and the numbers, and quotes nothing of the prompt but the names of special tokens.
            Self::Generate(error @ GenerateError::Prompt(source)) => format!("{error}: {source}"),
            Self::Generate(error @ GenerateError::Vision(source)) => format!("{error}: {source}"),
            Self::Generate(GenerateError::Panicked { .. }) => "the engine failed unexpectedly".to_owned(),
            // What is wrong with a file is said in words that name no path.
            Self::Input { source, .. } if !source.is_of_machine() => format!("{self}: {source}"),
            Self::Input { .. } => "could not decode the job's inputs".to_owned(),
            Self::Generate(GenerateError::Sink(_)) => "could not encode the video".to_owned(),
            other => other.to_string(),
        };
        JobError::new(self.code(), message)
    }

    fn code(&self) -> FailureCode {
        match self {
            Self::Generate(
                GenerateError::Panicked { .. }
                | GenerateError::Load { .. }
                | GenerateError::DeviceLost(_)
                | GenerateError::OutOfMemory(_)
                | GenerateError::Device(_),
            ) => FailureCode::InternalError,
            Self::Generate(error @ GenerateError::Sink(_)) => match media_error(error) {
                Some(error) if is_content(error) => FailureCode::GenerationFailed,
                _ => FailureCode::InternalError,
            },
            Self::Generate(_) | Self::Wedged(_) => FailureCode::GenerationFailed,
            Self::Encode(error) if is_content(error) => FailureCode::GenerationFailed,
            Self::Upload(_) | Self::InputAltered => FailureCode::StorageFailed,
            Self::Input { source, .. } if source.is_of_machine() => FailureCode::InternalError,
            Self::InputName(_)
            | Self::InputGone
            | Self::InputTooLarge { .. }
            | Self::FetchInput(_)
            | Self::InputStalled { .. }
            | Self::Input { .. } => FailureCode::InputFetchFailed,
            Self::Spec(_)
            | Self::Folder(_)
            | Self::KeepInput(_)
            | Self::InputPanicked
            | Self::Encode(_)
            | Self::NotFree
            | Self::Stopped => FailureCode::InternalError,
        }
    }
}

/// Tells whether decoding may succeed elsewhere or later: it took too long, which a busy machine may be the cause of, or
/// libheif is not installed here.
fn may_pass(error: &ReferenceError) -> bool {
    use decode::Error::{HeifCodecMissing, HeifToolMissing, Hung};
    matches!(error, ReferenceError::Decode(Hung { .. } | HeifToolMissing { .. } | HeifCodecMissing))
}

/// The muxer's error inside a failed sink's.
fn media_error(error: &GenerateError) -> Option<&MediaError> {
    let GenerateError::Sink(sink) = error else { return None };
    sink.0.downcast_ref()
}

/// Tells whether the fault lies in the frames and samples: the same seed would make the same again.
fn is_content(error: &MediaError) -> bool {
    matches!(
        error,
        MediaError::Format { .. }
            | MediaError::UnevenSamples { .. }
            | MediaError::SampleNotFinite { .. }
            | MediaError::SamplesMissing { .. }
            | MediaError::SamplesAfterFrames
            | MediaError::PartialFrame { .. }
            | MediaError::TooManyFrames { .. }
            | MediaError::FramesMissing { what: "handed over", .. }
    )
}

#[cfg(test)]
mod tests {
    use clapboard_engine::vision::VisionError;
    use clapboard_engine::{SinkError, Stop, text};

    use super::*;

    fn sink(error: MediaError) -> AttemptError {
        AttemptError::Generate(GenerateError::Sink(SinkError(Box::new(error))))
    }

    #[test]
    fn what_the_same_seed_would_do_again_is_fatal() {
        let not_finite = || MediaError::SampleNotFinite { sample: 3, channel: 0, value: f32::NAN };
        let network = GenerateError::Network(Box::new(io::Error::other("shape")));
        for error in [AttemptError::Generate(network), sink(not_finite()), AttemptError::Encode(not_finite())] {
            assert_eq!(error.class(), ErrorClass::Fatal { code: FailureCode::GenerationFailed }, "{error:?}");
        }
    }

    #[test]
    fn what_another_attempt_may_get_past_is_retryable() {
        let stalled = || MediaError::Stalled { program: "ffmpeg", limit: Duration::from_secs(1) };
        let unavailable = BlobError::Unavailable { doing: "putting", source: "down".into() };
        let wedged = Stall { phase: Phase::Denoise, limit: Duration::from_secs(1) };
        for (error, code) in [
            (sink(stalled()), FailureCode::InternalError),
            (AttemptError::Encode(stalled()), FailureCode::InternalError),
            (AttemptError::Upload(unavailable), FailureCode::StorageFailed),
            (AttemptError::Wedged(wedged), FailureCode::GenerationFailed),
            (AttemptError::Generate(GenerateError::Panicked { message: "oh".into() }), FailureCode::InternalError),
        ] {
            assert_eq!(error.class(), ErrorClass::Retryable { after: None }, "{error:?}");
            assert_eq!(error.job_error().code, code);
        }
    }

    #[test]
    fn what_the_machine_lacks_is_not_the_jobs_fault() {
        let full = || io::Error::from(io::ErrorKind::StorageFull);
        let io = || MediaError::Io { doing: "write samples to", path: "/data/scratch/x".into(), source: full() };
        let start = MediaError::Start { program: "ffmpeg", path: "ffmpeg".into(), source: full() };
        let storing = BlobError::Unavailable { doing: "writing an object", source: full().into() };
        let denied = BlobError::Denied { doing: "storing an object", source: "403 AccessDenied".into() };
        for error in [
            sink(io()),
            sink(start),
            AttemptError::Encode(io()),
            AttemptError::Folder(full()),
            AttemptError::Upload(storing),
            AttemptError::Upload(denied),
        ] {
            assert_eq!(error.class(), ErrorClass::Unwell, "{error:?}");
        }
    }

    fn input(source: decode::Error) -> AttemptError {
        AttemptError::Input { number: 2, source: ReferenceError::Decode(source) }
    }

    #[test]
    fn an_input_that_is_at_fault_ends_its_job_and_says_what_is_wrong() {
        let name = "a//b".parse::<clapboard_jobs::BlobKey>().unwrap_err();
        let undecodable = decode::Error::Undecodable { what: decode::Kind::Image, detail: "/data/scratch/x".into() };
        for (error, message) in [
            (AttemptError::InputGone, "an input of the job is not there any more"),
            (AttemptError::InputName(name), "an input of the job has no name that an object can have"),
            (
                AttemptError::InputTooLarge { size_bytes: 9, limit_bytes: 8 },
                "an input of the job has 9 bytes, and at most 8 are accepted",
            ),
            (input(decode::Error::Empty), "input 2 of the job cannot be used: the file is empty"),
            (
                input(undecodable),
                "input 2 of the job cannot be used: \
                 the image cannot be decoded: it is damaged, or of a kind that is not supported",
            ),
        ] {
            assert_eq!(error.class(), ErrorClass::Fatal { code: FailureCode::InputFetchFailed }, "{error:?}");
            let told = error.job_error();
            assert_eq!((told.code, told.message.as_str()), (FailureCode::InputFetchFailed, message));
        }
    }

    fn stalled(stuck: bool) -> AttemptError {
        AttemptError::InputStalled { number: 1, limit: Duration::from_secs(600), stuck }
    }

    fn load(source: LoadError) -> AttemptError {
        AttemptError::Generate(GenerateError::Load { partition: Partition::Ref2va, source: Box::new(source) })
    }

    #[test]
    fn weights_that_are_missing_or_have_changed_are_not_the_jobs_fault_and_only_the_latter_end_the_worker() {
        let job = JobId::new();
        let (missing, changed) = (LoadError::NoPartition, LoadError::Changed { partition: Partition::Ref2va });
        for (error, ends) in [(load(missing), false), (load(changed), true)] {
            assert_eq!((error.class(), error.lacks()), (ErrorClass::Unwell, Some(Partition::Ref2va)));
            assert_eq!(error.ends_worker(job).is_some(), ends, "{error:?}");
        }
    }

    #[test]
    fn what_a_gpu_fails_at_is_not_the_jobs_fault_and_only_a_lost_one_ends_the_worker() {
        let job = JobId::new();
        let said = || Box::new(io::Error::other("CUDA_ERROR_ILLEGAL_ADDRESS"));
        let retryable = ErrorClass::Retryable { after: None };
        for (error, class, ends) in [
            (GenerateError::DeviceLost(said()), ErrorClass::Unwell, true),
            (GenerateError::OutOfMemory(said()), ErrorClass::Unwell, false),
            (GenerateError::Device(said()), retryable, false),
        ] {
            let error = AttemptError::Generate(error);
            assert_eq!((error.class(), error.lacks()), (class, None), "{error:?}");
            let ended = error.ends_worker(job);
            assert_eq!(ended.is_some(), ends, "{error:?}");
            assert!(ended.is_none_or(|ended| matches!(ended, Error::DeviceLost { job: told } if told == job)));
            let told = error.job_error();
            assert_eq!(
                (told.code, told.message.as_str()),
                (FailureCode::InternalError, "could not generate the video")
            );
        }
    }

    #[test]
    fn a_decoder_that_can_be_ended_does_not_end_the_worker() {
        let job = JobId::new();
        assert!(stalled(false).ends_worker(job).is_none());
        let limit = Duration::from_secs(600);
        let ended = stalled(true).ends_worker(job);
        assert!(matches!(ended, Some(Error::Wedged { phase: Phase::Prepare, limit: told, .. }) if told == limit));
    }

    #[test]
    fn an_input_that_was_not_read_is_no_fault_of_its_own() {
        let hung = decode::Error::Hung { what: decode::Kind::Video, limit: Duration::from_secs(1) };
        for (error, code) in [
            (AttemptError::InputAltered, FailureCode::StorageFailed),
            (stalled(false), FailureCode::InputFetchFailed),
            (input(hung), FailureCode::InputFetchFailed),
            (input(decode::Error::HeifCodecMissing), FailureCode::InternalError),
            (AttemptError::InputPanicked, FailureCode::InternalError),
        ] {
            assert_eq!(error.class(), ErrorClass::Retryable { after: None }, "{error:?}");
            assert_eq!(error.job_error().code, code);
        }
        let full = || io::Error::from(io::ErrorKind::StorageFull);
        let machine = MediaError::Io { doing: "read", path: "/data/scratch/x".into(), source: full() };
        let denied = BlobError::Denied { doing: "reading an object", source: "403 AccessDenied".into() };
        let unavailable = BlobError::Unavailable { doing: "reading", source: "down".into() };
        for error in [
            AttemptError::FetchInput(denied),
            AttemptError::FetchInput(unavailable),
            AttemptError::KeepInput(full()),
            input(decode::Error::Machine(machine)),
        ] {
            assert_eq!(error.class(), ErrorClass::Unwell, "{error:?}");
            assert!(!error.job_error().message.contains("/data"), "{error:?}");
        }
    }

    #[test]
    fn a_prompt_that_cannot_be_used_is_told_why() {
        let source = text::Error::TooLong { tokens: 7010, limit: 4096 };
        let error = AttemptError::Generate(GenerateError::Prompt(source)).job_error();
        assert_eq!(error.code, FailureCode::GenerationFailed);
        let message = "the prompt cannot be used: prompt has 7010 tokens, the language model takes 4096";
        assert_eq!(error.message, message);
        let source = VisionError::TooFewFrames { frames: 12, needed: 13 };
        let error = AttemptError::Generate(GenerateError::Vision(source)).job_error();
        let expected = "a picture or video cannot be used: video reference must have at least 13 frames";
        assert!(error.message.starts_with(expected), "{}", error.message);
    }

    #[test]
    fn being_told_to_stop_is_nobodys_fault() {
        let stopped = AttemptError::Generate(GenerateError::Stopped(Stop::Checkpointed));
        assert_eq!(stopped.class(), ErrorClass::Interrupted);
        assert_eq!(AttemptError::Stopped.class(), ErrorClass::Interrupted);
        assert_eq!(AttemptError::NotFree.class(), ErrorClass::Premature);
    }

    #[test]
    fn a_client_is_told_neither_paths_nor_causes() {
        let source = io::Error::other("no space left on device");
        let io = MediaError::Io { doing: "write samples to", path: "/data/scratch/x".into(), source };
        assert_eq!(sink(io).job_error().message, "could not encode the video");
        let panicked = GenerateError::Panicked { message: "index 7 in /src/secret.rs".into() };
        assert_eq!(AttemptError::Generate(panicked).job_error().message, "the engine failed unexpectedly");
    }
}
