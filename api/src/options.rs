//! The limits and habits of the HTTP side.

use std::path::PathBuf;
use std::time::Duration;

use clapboard_outbound::{AllowedHost, InvalidHost, Rules};

use crate::auth::Auth;

/// The limits and habits of the HTTP side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// How clients say who they are.
    pub auth: Auth,
    /// How long an API key is taken to grant what the job store has said: one that is revoked works for as long still.
    pub key_memory: Duration,
    /// The names, apart from the profile's own, under which a request may ask for the served model.
    pub model_aliases: Vec<String>,
    /// The seed of a request without one; none for a random one. vLLM-Omni takes 42.
    pub default_seed: Option<u32>,
    /// The most that the texts of a body may have, data URLs among them. Files do not count.
    pub max_body_bytes: usize,
    /// How many bodies with more than a mebibyte of texts are in memory at once. Each may take four times `max_body_bytes`,
    /// and counts as a request with media.
    pub max_large_bodies: usize,
    /// How long a body without files may take to come.
    pub body_timeout: Duration,
    /// How many requests with media are read, fetched for, looked into and stored at once. Each may take 600 MiB of the
    /// spool: twelve files of 50 MiB.
    pub max_uploads: usize,
    /// How many of these a tenant may have, where tenants are told apart. Its share of `max_large_bodies` and of
    /// `inspection_memory_bytes` is the same.
    pub max_uploads_per_tenant: usize,
    /// How long a body with files may stand still.
    pub upload_stall_timeout: Duration,
    /// How fast a body with files has to come on average, in bytes a second, once it has come for `upload_stall_timeout`;
    /// 0 for as slow as `upload_timeout` lets it.
    pub upload_least_bytes_per_s: u64,
    /// How long a body with files may take to come.
    pub upload_timeout: Duration,
    /// How long a request with media or long texts waits for room, before it is answered that there is none.
    pub capacity_wait: Duration,
    /// The folder where the files of requests lie until they are stored. It needs room for `max_uploads` of them.
    pub spool: PathBuf,
    /// How long the URLs of one request may take to be fetched, together.
    pub input_fetch_timeout: Duration,
    /// How much memory looking into files may take, here and in the programs that do it. A video counts for 5.6 GiB,
    /// a sound for 3.6 GiB, a HEIC picture for up to 2.4 GiB and another for up to 0.6 GiB; what is more than this counts as all of it.
    pub inspection_memory_bytes: u64,
    /// How long looking into the files of one request may take, together and with waiting.
    pub inspection_timeout: Duration,
    /// How long a stored input may wait for its job to be made, before it is garbage. Storing all of a request's inputs is
    /// given up after a quarter of that.
    pub input_grace: Duration,
    /// The hosts that a request's URLs may name although they are not on the public internet: each an
    /// [`AllowedHost`](crate::AllowedHost).
    pub allow_url_hosts: Vec<String>,
    /// The hosts to which webhooks may go although they are not on the public internet, or without encryption: each an
    /// [`AllowedHost`](crate::AllowedHost).
    pub allow_http_webhook_hosts: Vec<String>,
    /// How long the test of a webhook endpoint waits for its answer: a little longer than whoever delivers webhooks does.
    pub webhook_test_wait: Duration,
    /// How often an API key whose own rate is not said may ask for a video, or a tenant where there are no keys; none for
    /// as often as it likes.
    pub requests_per_minute: Option<u32>,
    /// How much is read and thrown away of a body that was answered before it was read, so that its sender gets to read the
    /// answer.
    pub drain_bytes: u64,
    /// For how long that is done.
    pub drain_timeout: Duration,
    /// How many clients may be connected; the next ones wait until one leaves. Fewer where the process may not have as
    /// many files open.
    pub max_connections: usize,
    /// How long the head of a request may take to come, and a connection without a request to be kept.
    pub header_read_timeout: Duration,
    /// How long a client may take none of the bytes that are sent to it.
    pub write_timeout: Duration,
    /// How long the requests in flight get to end when the service stops; then their connections are closed.
    pub closing_grace: Duration,
    /// How long a synchronous request waits for its video. OpenAI's clients hang up after 600 s, and would cancel it.
    pub sync_timeout: Duration,
    /// How often a synchronous request looks for its video.
    pub sync_poll: Duration,
    /// How long clients are asked to wait between two looks at a job.
    pub poll_after: Duration,
    /// Whether a download is sent on to the media store, where that has addresses for it and the request does not say.
    pub redirect_content: bool,
    /// Whether a look at a failed video is answered with an error's status, as vLLM-Omni does, instead of 200.
    pub compat_failed_job_http_status: bool,
    /// Whether a service without a worker of its own refuses a video whose weights no worker has now, instead of queueing it.
    pub require_live_partition: bool,
    /// The longest packed sequence that the service's only worker has memory for, in rows; none where nothing bounds it, or there
    /// may be other workers.
    pub max_rows: Option<u64>,
    /// How often a stream of events looks at its video.
    pub event_poll: Duration,
    /// How many streams of events a tenant may have open.
    pub max_streams_per_tenant: usize,
}

impl Default for Options {
    fn default() -> Self {
        let aliases = ["sora-2", "sora-2-pro", "minimax-h3", "MiniMaxAI/MiniMax-H3"];
        Self {
            auth: Auth::default(),
            key_memory: Duration::from_secs(10),
            model_aliases: aliases.map(str::to_owned).to_vec(),
            default_seed: None,
            max_body_bytes: 16 << 20,
            max_large_bodies: 8,
            body_timeout: Duration::from_secs(30),
            max_uploads: 16,
            max_uploads_per_tenant: 4,
            upload_stall_timeout: Duration::from_secs(30),
            upload_least_bytes_per_s: 16 << 10,
            upload_timeout: Duration::from_secs(900),
            capacity_wait: Duration::from_secs(10),
            spool: std::env::temp_dir(),
            input_fetch_timeout: Duration::from_secs(60),
            inspection_memory_bytes: 16 << 30,
            inspection_timeout: Duration::from_secs(120),
            input_grace: Duration::from_secs(3600),
            allow_url_hosts: Vec::new(),
            allow_http_webhook_hosts: Vec::new(),
            webhook_test_wait: Duration::from_secs(20),
            requests_per_minute: None,
            drain_bytes: 64 << 20,
            drain_timeout: Duration::from_secs(5),
            max_connections: 1024,
            header_read_timeout: Duration::from_secs(15),
            write_timeout: Duration::from_secs(300),
            closing_grace: Duration::from_secs(5),
            sync_timeout: Duration::from_secs(570),
            sync_poll: Duration::from_millis(250),
            poll_after: Duration::from_secs(2),
            redirect_content: false,
            compat_failed_job_http_status: false,
            require_live_partition: false,
            max_rows: None,
            event_poll: Duration::from_millis(500),
            max_streams_per_tenant: 100,
        }
    }
}

/// Says which options cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidOptions {
    /// One of [`Options::allow_url_hosts`] or [`Options::allow_http_webhook_hosts`] is none.
    #[error(transparent)]
    Host(#[from] InvalidHost),
    /// A limit lets nothing through.
    #[error("{0} must be above zero")]
    Zero(&'static str),
    /// A tenant may have more than all tenants together.
    #[error("max_uploads_per_tenant must be at most max_uploads ({all}), got {of_tenant}")]
    Share {
        /// `max_uploads_per_tenant`.
        of_tenant: usize,
        /// `max_uploads`.
        all: usize,
    },
}

impl Options {
    /// Checks that every option can be.
    ///
    /// Errors: a sentence about the first that cannot.
    pub fn check(&self) -> Result<(), InvalidOptions> {
        let mut hosts = self.allow_url_hosts.iter().chain(&self.allow_http_webhook_hosts);
        hosts.try_for_each(|host| host.parse::<AllowedHost>().map(drop))?;
        for (name, is_zero) in [
            ("max_uploads", self.max_uploads == 0),
            ("max_uploads_per_tenant", self.max_uploads_per_tenant == 0),
            ("max_large_bodies", self.max_large_bodies == 0),
            ("inspection_memory_bytes", self.inspection_memory_bytes == 0),
            ("inspection_timeout", self.inspection_timeout.is_zero()),
            ("input_grace", self.input_grace.is_zero()),
            ("requests_per_minute", self.requests_per_minute == Some(0)),
        ] {
            if is_zero {
                return Err(InvalidOptions::Zero(name));
            }
        }
        let (of_tenant, all) = (self.max_uploads_per_tenant, self.max_uploads);
        if self.auth == Auth::Keys && of_tenant > all {
            return Err(InvalidOptions::Share { of_tenant, all });
        }
        Ok(())
    }

    /// Returns the hosts that a request's URLs may name wherever they are; a text that is no host is told in the log, and
    /// no URL names it.
    pub(crate) fn allowed_hosts(&self) -> Vec<AllowedHost> {
        hosts(&self.allow_url_hosts)
    }

    /// Returns where webhooks may go.
    pub(crate) fn webhook_rules(&self) -> Rules {
        Rules::new(hosts(&self.allow_http_webhook_hosts)).https_only()
    }
}

fn hosts(texts: &[String]) -> Vec<AllowedHost> {
    let parse = |host: &String| match host.parse() {
        Ok(host) => Some(host),
        Err(error) => {
            tracing::warn!(%error, "a host of the options is none");
            None
        }
    };
    texts.iter().filter_map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_cannot_be_are_told_in_a_sentence() {
        assert_eq!(Options::default().check(), Ok(()));
        let refusal = |options: Options| options.check().unwrap_err().to_string();
        let hosts = vec!["nas.home".to_owned(), "nas.home:9000".to_owned()];
        let refused = refusal(Options { allow_url_hosts: hosts.clone(), ..Options::default() });
        assert!(refused.starts_with("\"nas.home:9000\" is not a host: "), "{refused}");
        assert_eq!(Options { allow_url_hosts: hosts.clone(), ..Options::default() }.allowed_hosts().len(), 1);
        let refused = refusal(Options { allow_http_webhook_hosts: hosts, ..Options::default() });
        assert!(refused.starts_with("\"nas.home:9000\" is not a host: "), "{refused}");
        let refused = refusal(Options { requests_per_minute: Some(0), ..Options::default() });
        assert_eq!(refused, "requests_per_minute must be above zero");
        let refused = refusal(Options { auth: Auth::Keys, max_uploads: 3, ..Options::default() });
        assert_eq!(refused, "max_uploads_per_tenant must be at most max_uploads (3), got 4");
        let refused = refusal(Options { inspection_memory_bytes: 0, ..Options::default() });
        assert_eq!(refused, "inspection_memory_bytes must be above zero");
    }
}
