//! Where videos and denoising states are stored.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, anyhow};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clapboard_blob::{ConditionalPut, S3Options, Sse};

use super::{Secret, duration, secret};

/// The S3 bucket of videos and denoising states. The AWS variables have their usual names.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "S3")]
pub(crate) struct MediaStoreArgs {
    /// The bucket, which must be there
    #[arg(long, env = "CLAPBOARD_S3_BUCKET", value_name = "BUCKET")]
    s3_bucket: Option<String>,
    /// What stands before every key, so that several deployments may share a bucket. All processes need the same
    /// [default: nothing]
    #[arg(long, env = "CLAPBOARD_S3_PREFIX", value_name = "PREFIX")]
    s3_prefix: Option<String>,
    /// The server, such as http://127.0.0.1:9000 [default: that of AWS in the region]
    #[arg(long, env = "CLAPBOARD_S3_ENDPOINT", value_name = "URL")]
    s3_endpoint: Option<String>,
    /// The region [default: what the profile or the instance says; us-east-1 where an endpoint is given]
    #[arg(long, env = "AWS_REGION", value_name = "REGION")]
    s3_region: Option<String>,
    /// Whether a URL names the bucket in its path and not in its host, as most servers besides AWS want it
    /// [default: true where an endpoint is given]
    #[arg(long, env = "CLAPBOARD_S3_PATH_STYLE", value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    s3_path_style: Option<bool>,
    /// The id of the access key [default: the profile's, or a role's: web identity, container, instance]
    #[arg(long, env = "AWS_ACCESS_KEY_ID", value_name = "ID", hide_env_values = true)]
    s3_access_key_id: Option<String>,
    /// The secret of the access key
    #[arg(long, env = "AWS_SECRET_ACCESS_KEY", value_name = "SECRET", hide_env_values = true)]
    s3_secret_access_key: Option<Secret>,
    /// A file that holds the secret of the access key
    #[arg(long, env = "AWS_SECRET_ACCESS_KEY_FILE", value_name = "FILE", value_parser = secret::file())]
    s3_secret_access_key_file: Option<PathBuf>,
    /// The token of a temporary access key
    #[arg(long, env = "AWS_SESSION_TOKEN", value_name = "TOKEN", hide_env_values = true)]
    s3_session_token: Option<Secret>,
    /// A file that holds the token of a temporary access key
    #[arg(long, env = "AWS_SESSION_TOKEN_FILE", value_name = "FILE", value_parser = secret::file())]
    s3_session_token_file: Option<PathBuf>,
    /// How objects are encrypted where they lie: AES256, aws:kms, or aws:kms:KEY [default: as the bucket prescribes]
    #[arg(long, env = "CLAPBOARD_S3_SSE", value_name = "HOW", value_parser = sse)]
    s3_sse: Option<Sse>,
    /// Whether the server itself is asked not to overwrite (If-None-Match): auto finds out if it can
    #[arg(long, env = "CLAPBOARD_S3_CONDITIONAL_PUT", value_name = "WHEN", default_value = "auto",
          value_parser = conditional_put())]
    s3_conditional_put: ConditionalPut,
    /// The size above which an object is put in several parts, in MiB
    #[arg(long, env = "CLAPBOARD_S3_MULTIPART_MIB", value_name = "MIB", default_value_t = 16)]
    s3_multipart_mib: u32,
    /// The size of a part, in MiB
    #[arg(long, env = "CLAPBOARD_S3_PART_MIB", value_name = "MIB", default_value_t = 16)]
    s3_part_mib: u32,
    /// How long a connection may take to be made
    #[arg(long, env = "CLAPBOARD_S3_CONNECT_TIMEOUT", value_name = "DURATION", default_value = "5s",
          value_parser = duration::parse)]
    s3_connect_timeout: Duration,
    /// How long a request may be under way without a byte moving
    #[arg(long, env = "CLAPBOARD_S3_STALL_TIMEOUT", value_name = "DURATION", default_value = "30s",
          value_parser = duration::parse)]
    s3_stall_timeout: Duration,
    /// How often a request is tried again that the server could not answer
    #[arg(long, env = "CLAPBOARD_S3_RETRIES", value_name = "N", default_value_t = 2)]
    s3_retries: u32,
}

impl MediaStoreArgs {
    /// Returns how the bucket is reached; none when it is not said which it is.
    ///
    /// Errors: a sentence about the first setting that cannot be, without a secret.
    pub(crate) fn options(&self) -> anyhow::Result<Option<S3Options>> {
        let (secret, file) = (self.s3_secret_access_key.clone(), self.s3_secret_access_key_file.clone());
        let secret = secret::given("--s3-secret-access-key", secret, file)?;
        let (token, file) = (self.s3_session_token.clone(), self.s3_session_token_file.clone());
        let token = secret::given("--s3-session-token", token, file)?;
        let Some(bucket) = not_empty(&self.s3_bucket) else { return Ok(None) };
        let endpoint = not_empty(&self.s3_endpoint);
        let options = S3Options {
            prefix: not_empty(&self.s3_prefix),
            path_style: self.s3_path_style.unwrap_or(endpoint.is_some()),
            endpoint,
            region: not_empty(&self.s3_region),
            access_key_id: not_empty(&self.s3_access_key_id),
            secret_access_key: secret.map(Secret::reveal),
            session_token: token.map(Secret::reveal),
            sse: self.s3_sse.clone(),
            conditional_put: self.s3_conditional_put,
            multipart_threshold_bytes: u64::from(self.s3_multipart_mib) << 20,
            part_size_bytes: u64::from(self.s3_part_mib) << 20,
            connect_timeout: self.s3_connect_timeout,
            stall_timeout: self.s3_stall_timeout,
            retries: self.s3_retries,
            ..S3Options::new(bucket)
        };
        options.validate().map_err(|refused| anyhow!("{} {}", flag(refused.setting), in_flags(&refused.rule)))?;
        Ok(Some(options))
    }

    /// Returns how the bucket is reached.
    ///
    /// Errors: those of [`options`](Self::options), and when it is not said which bucket it is.
    pub(crate) fn required(&self) -> anyhow::Result<S3Options> {
        self.options()?.context("--s3-bucket is missing: say where videos are stored (or set CLAPBOARD_S3_BUCKET)")
    }
}

/// Names the flag of a field of [`S3Options`].
fn flag(field: &str) -> String {
    match field {
        "multipart_threshold_bytes" => "--s3-multipart-mib".to_owned(),
        "part_size_bytes" => "--s3-part-mib".to_owned(),
        _ => format!("--s3-{}", field.replace('_', "-")),
    }
}

/// Puts the flags into a rule that speaks of other fields of [`S3Options`].
fn in_flags(rule: &str) -> String {
    ["secret_access_key", "access_key_id"].iter().fold(rule.to_owned(), |rule, field| rule.replace(field, &flag(field)))
}

/// An empty text counts as not given, as an unset variable of a compose file is.
fn not_empty(text: &Option<String>) -> Option<String> {
    text.clone().filter(|text| !text.is_empty())
}

fn sse(text: &str) -> Result<Sse, String> {
    match text {
        "AES256" => Ok(Sse::Aes256),
        "aws:kms" => Ok(Sse::Kms { key_id: None }),
        _ => match text.strip_prefix("aws:kms:") {
            Some(key) if !key.is_empty() => Ok(Sse::Kms { key_id: Some(key.to_owned()) }),
            _ => Err(format!("{text:?} is neither AES256, aws:kms nor aws:kms:KEY")),
        },
    }
}

fn conditional_put() -> impl TypedValueParser<Value = ConditionalPut> {
    PossibleValuesParser::new(["auto", "always", "never"]).map(|name| match name.as_str() {
        "always" => ConditionalPut::Always,
        "never" => ConditionalPut::Never,
        _ => ConditionalPut::Auto,
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        s3: MediaStoreArgs,
    }

    fn options(arguments: &[&str]) -> anyhow::Result<S3Options> {
        Cli::try_parse_from(["api", "--s3-bucket", "clips"].iter().chain(arguments))?.s3.required()
    }

    fn refusal(arguments: &[&str]) -> String {
        options(arguments).map(|_| ()).unwrap_err().to_string()
    }

    #[test]
    fn the_defaults_are_those_of_the_media_store_itself() {
        assert_eq!(options(&[]).unwrap(), S3Options::new("clips"));
        assert_eq!(options(&["--s3-prefix", "", "--s3-endpoint", ""]).unwrap(), S3Options::new("clips"));
    }

    #[test]
    fn a_server_of_ones_own_is_addressed_by_path_unless_it_is_said_otherwise() {
        let own = ["--s3-endpoint", "http://127.0.0.1:9000"];
        assert!(options(&own).unwrap().path_style);
        assert!(!options(&[own[0], own[1], "--s3-path-style", "false"]).unwrap().path_style);
        assert!(options(&["--s3-path-style"]).unwrap().path_style);
    }

    #[test]
    fn encryption_is_named_as_aws_names_it() {
        assert_eq!(options(&["--s3-sse", "AES256"]).unwrap().sse, Some(Sse::Aes256));
        assert_eq!(options(&["--s3-sse", "aws:kms"]).unwrap().sse, Some(Sse::Kms { key_id: None }));
        let key = Sse::Kms { key_id: Some("arn:aws:kms:k".to_owned()) };
        assert_eq!(options(&["--s3-sse", "aws:kms:arn:aws:kms:k"]).unwrap().sse, Some(key));
        assert!(refusal(&["--s3-sse", "rot13"]).contains("\"rot13\" is neither AES256, aws:kms nor aws:kms:KEY"));
    }

    #[test]
    fn the_token_of_a_temporary_key_may_stand_in_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        std::fs::write(&path, "hunter2\n").unwrap();
        let key = ["--s3-access-key-id", "AKID", "--s3-secret-access-key", "s", "--s3-session-token-file"];
        let file = path.to_str().unwrap();
        let options = options(&[&key[..], &[file]].concat()).unwrap();
        assert_eq!(options.session_token.as_deref(), Some("hunter2"));
        let refused = refusal(&[&key[..], &[file, "--s3-session-token", "t"]].concat());
        assert_eq!(refused, "--s3-session-token and --s3-session-token-file are both given, and one of them is enough");
    }

    #[test]
    fn a_wrong_setting_is_told_by_its_flag_and_without_secrets() {
        assert!(refusal(&["--s3-endpoint", "127.0.0.1:9000"]).starts_with("--s3-endpoint must begin with http:// or"));
        assert!(refusal(&["--s3-part-mib", "1"]).starts_with("--s3-part-mib must be 5 MiB to 5 GiB"));
        let refused = refusal(&["--s3-access-key-id", "AKID"]);
        assert_eq!(refused, "--s3-secret-access-key must be given with --s3-access-key-id");
        let refused = refusal(&["--s3-secret-access-key", "hunter2"]);
        assert_eq!(refused, "--s3-access-key-id must be given with --s3-secret-access-key");
        let refused = refusal(&["--s3-endpoint", "http://u:hunter2@h"]);
        assert!(refused.ends_with("use --s3-access-key-id and --s3-secret-access-key"), "{refused}");
        assert!(!refused.contains("hunter2"), "{refused}");
    }
}
