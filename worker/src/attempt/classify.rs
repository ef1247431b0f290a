//! What went wrong with an attempt, and what that means for its job: decided here and nowhere else.

use std::io;

use clapboard_engine::GenerateError;
use clapboard_h3::SpecError;
use clapboard_jobs::{BlobError, ErrorClass, FailureCode, JobError};
use clapboard_media::Error as MediaError;

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
    /// The attempt was told to stop.
    #[error("the attempt was stopped")]
    Stopped,
}

impl AttemptError {
    /// What the error means for the job.
    ///
    /// The engine is deterministic, so what it refuses or fails at it will again; processes, disks and the network
    /// are not. What this worker lacks, such as room on its disk or leave to put objects into the media store, no job is blamed
    /// for. An engine that panicked or hung is given another chance, since attempts are counted.
    pub(crate) fn class(&self) -> ErrorClass {
        let code = self.code();
        let fatal = ErrorClass::Fatal { code };
        let retryable = ErrorClass::Retryable { after: None };
        match self {
            Self::Spec(_) => fatal,
            Self::Generate(error) => match error {
                GenerateError::Stopped(_) => ErrorClass::Interrupted,
                GenerateError::Sink(_) => match media_error(error) {
                    Some(error) if is_content(error) => fatal,
                    Some(error) if error.is_of_machine() => ErrorClass::Unwell,
                    _ => retryable,
                },
                GenerateError::Panicked { .. } => retryable,
                _ => fatal,
            },
            Self::Encode(error) if is_content(error) => fatal,
            Self::Folder(_) => ErrorClass::Unwell,
            Self::Encode(error) if error.is_of_machine() => ErrorClass::Unwell,
            Self::Upload(error) if is_of_worker(error) => ErrorClass::Unwell,
            Self::Encode(_) | Self::Upload(_) | Self::Wedged(_) => retryable,
            Self::Stopped => ErrorClass::Interrupted,
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
            Self::Generate(GenerateError::Sink(_)) => "could not encode the video".to_owned(),
            other => other.to_string(),
        };
        JobError::new(self.code(), message)
    }

    fn code(&self) -> FailureCode {
        match self {
            Self::Generate(GenerateError::Panicked { .. }) => FailureCode::InternalError,
            Self::Generate(error @ GenerateError::Sink(_)) => match media_error(error) {
                Some(error) if is_content(error) => FailureCode::GenerationFailed,
                _ => FailureCode::InternalError,
            },
            Self::Generate(_) | Self::Wedged(_) => FailureCode::GenerationFailed,
            Self::Encode(error) if is_content(error) => FailureCode::GenerationFailed,
            Self::Upload(_) => FailureCode::StorageFailed,
            Self::Spec(_) | Self::Folder(_) | Self::Encode(_) | Self::Stopped => FailureCode::InternalError,
        }
    }
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
    use std::time::Duration;

    use clapboard_engine::vision::VisionError;
    use clapboard_engine::{SinkError, Stop, text};
    use clapboard_jobs::Phase;

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
