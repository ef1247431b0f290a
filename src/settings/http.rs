//! What the HTTP side goes by.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{bail, ensure};
use clap::ArgAction;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clapboard_api::{Auth, Options};

use super::{duration, url_host};

/// The shortest time that a stored input may wait for its job.
const LEAST_INPUT_GRACE: Duration = Duration::from_secs(10);

/// Where the service listens and what it accepts.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "HTTP")]
pub(crate) struct HttpArgs {
    /// The address to listen on, such as 127.0.0.1:8000; port 0 takes a free one
    #[arg(long, env = "CLAPBOARD_LISTEN", value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8000",
          value_parser = address)]
    listen: SocketAddr,
    /// Who may use the service: open to whoever reaches it, all as one tenant; or those with a key, each for its tenant
    #[arg(long, env = "CLAPBOARD_AUTH", value_name = "AUTH", default_value = "open", value_parser = auth())]
    auth: Auth,
    /// Say twice to listen beyond this machine although the service is open
    /// [as an environment variable: 2]
    #[arg(long, env = "CLAPBOARD_NO_AUTH", action = ArgAction::Count)]
    no_auth: u8,
    /// How many videos may be asked for in a minute with an API key that has no rate of its own, or by everybody together where
    /// no keys are asked for [default: any number]
    #[arg(long, env = "CLAPBOARD_REQUESTS_PER_MINUTE", value_name = "N")]
    requests_per_minute: Option<u32>,
    /// How many streams of events a tenant may have open at once
    #[arg(long, env = "CLAPBOARD_MAX_STREAMS_PER_TENANT", value_name = "N",
          default_value_t = Options::default().max_streams_per_tenant)]
    max_streams_per_tenant: usize,
    /// Refuse jobs with 503 while no worker serves their partition, instead of letting them wait
    #[arg(long, env = "CLAPBOARD_REQUIRE_LIVE_PARTITION")]
    require_live_partition: bool,
    /// Answer with an error status when a failed video is looked at, as vLLM-Omni does; OpenAI's clients then raise, and ask
    /// again where it is 500
    #[arg(long, env = "CLAPBOARD_COMPAT_FAILED_JOB_HTTP_STATUS")]
    compat_failed_job_http_status: bool,
    /// Further names under which requests may ask for the served model, separated by commas; they replace the default
    #[arg(
        long,
        env = "CLAPBOARD_MODEL_ALIAS",
        value_name = "NAME",
        value_delimiter = ',',
        default_value = "sora-2,sora-2-pro,minimax-h3,MiniMaxAI/MiniMax-H3"
    )]
    model_alias: Vec<String>,
    /// The seed of requests that name none [default: a random one for each]
    #[arg(long, env = "CLAPBOARD_DEFAULT_SEED", value_name = "SEED")]
    default_seed: Option<u32>,
    /// The most that the texts of a request body may have, in MiB, data URLs among them; files do not count
    #[arg(long, env = "CLAPBOARD_MAX_BODY_MIB", value_name = "MIB", default_value_t = 16)]
    max_body_mib: usize,
    /// How many bodies with more than 1 MiB of texts are in memory at once; each may take four times --max-body-mib
    #[arg(long, env = "CLAPBOARD_MAX_LARGE_BODIES", value_name = "N",
          default_value_t = Options::default().max_large_bodies)]
    max_large_bodies: usize,
    /// How many requests with media are received, looked into and stored at once; each may take 600 MiB of disk, and 100 MiB
    /// more while it is looked into
    #[arg(long, env = "CLAPBOARD_MAX_UPLOADS", value_name = "N", default_value_t = Options::default().max_uploads)]
    max_uploads: usize,
    /// How many of these a tenant may have, where there are keys [default: 4, or --max-uploads if that is less]
    #[arg(long, env = "CLAPBOARD_MAX_UPLOADS_PER_TENANT", value_name = "N")]
    max_uploads_per_tenant: Option<usize>,
    /// How much memory looking into files may take, in MiB: here, and as bounds of the programs that do it
    #[arg(long, env = "CLAPBOARD_INSPECTION_MEMORY_MIB", value_name = "MIB",
          default_value_t = Options::default().inspection_memory_bytes >> 20)]
    inspection_memory_mib: u64,
    /// How long looking into the files of one request may take, together
    #[arg(long, env = "CLAPBOARD_INSPECTION_TIMEOUT", value_name = "DURATION", default_value = "120s",
          value_parser = duration::parse)]
    inspection_timeout: Duration,
    /// How long a request body with files may take to come
    #[arg(long, env = "CLAPBOARD_UPLOAD_TIMEOUT", value_name = "DURATION", default_value = "15m",
          value_parser = duration::parse)]
    upload_timeout: Duration,
    /// How long a request body with files may stand still
    #[arg(long, env = "CLAPBOARD_UPLOAD_STALL_TIMEOUT", value_name = "DURATION", default_value = "30s",
          value_parser = duration::parse)]
    upload_stall_timeout: Duration,
    /// How fast a request body with files has to come on average, in KiB a second; 0 for any rate
    #[arg(long, env = "CLAPBOARD_UPLOAD_LEAST_RATE_KIB", value_name = "KIB",
          default_value_t = Options::default().upload_least_bytes_per_s >> 10)]
    upload_least_rate_kib: u64,
    /// How long a request with media or long texts waits while as many as may are served, before it is answered with 503
    #[arg(long, env = "CLAPBOARD_CAPACITY_WAIT", value_name = "DURATION", default_value = "10s",
          value_parser = duration::parse)]
    capacity_wait: Duration,
    /// How long the URLs of one request may take to be fetched, together
    #[arg(long, env = "CLAPBOARD_INPUT_FETCH_TIMEOUT", value_name = "DURATION", default_value = "60s",
          value_parser = duration::parse)]
    input_fetch_timeout: Duration,
    /// Hosts that a request's URLs may name although their addresses are private, separated by commas
    #[arg(long, env = "CLAPBOARD_ALLOW_URL_HOST", value_name = "HOST", value_delimiter = ',',
          value_parser = url_host)]
    allow_url_host: Vec<String>,
    /// How long a stored input may wait for its job to be made, before it is deleted; longer than storing all of a
    /// request's inputs takes
    #[arg(long, env = "CLAPBOARD_INPUT_GRACE", value_name = "DURATION", default_value = "1h",
          value_parser = duration::parse)]
    input_grace: Duration,
    /// How long a request body without files may take to come
    #[arg(long, env = "CLAPBOARD_BODY_TIMEOUT", value_name = "DURATION", default_value = "30s",
          value_parser = duration::parse)]
    body_timeout: Duration,
    /// How long a request's head may take to come, and an idle connection is kept
    #[arg(long, env = "CLAPBOARD_HEADER_TIMEOUT", value_name = "DURATION", default_value = "15s",
          value_parser = duration::parse)]
    header_timeout: Duration,
    /// How long a client may take nothing of its answer before it is cut off
    #[arg(long, env = "CLAPBOARD_WRITE_TIMEOUT", value_name = "DURATION", default_value = "300s",
          value_parser = duration::parse)]
    write_timeout: Duration,
    /// How many connections are served at a time, as far as the limit of open files allows; others wait
    #[arg(long, env = "CLAPBOARD_MAX_CONNECTIONS", value_name = "N",
          default_value_t = Options::default().max_connections)]
    max_connections: usize,
    /// How long requests in flight get to end once the service drains, before they are cut off
    #[arg(long, env = "CLAPBOARD_CLOSING_GRACE", value_name = "DURATION", default_value = "5s",
          value_parser = duration::parse)]
    closing_grace: Duration,
    /// How long POST /v1/videos/sync waits for its video; OpenAI's clients hang up after 600 s
    #[arg(long, env = "CLAPBOARD_SYNC_TIMEOUT", value_name = "DURATION", default_value = "570s",
          value_parser = duration::parse)]
    sync_timeout: Duration,
    /// How long clients are asked to wait between two looks at a job, by the header openai-poll-after-ms
    #[arg(long, env = "CLAPBOARD_POLL_AFTER", value_name = "DURATION", default_value = "2s",
          value_parser = duration::parse)]
    poll_after: Duration,
    /// Send downloads on to the media store, where it has addresses for that; `?redirect=` on a request says otherwise
    #[arg(long, env = "CLAPBOARD_REDIRECT_CONTENT")]
    redirect_content: bool,
}

/// The checked settings of the HTTP side.
#[derive(Debug)]
pub(crate) struct Http {
    pub(crate) listen: SocketAddr,
    pub(crate) options: Options,
}

impl TryFrom<HttpArgs> for Http {
    type Error = anyhow::Error;

    /// Errors: a sentence about the first setting, or pair of settings, that cannot be.
    fn try_from(http: HttpArgs) -> anyhow::Result<Self> {
        refuse_the_open_network(&http)?;
        ensure!(
            (1..=1024).contains(&http.max_body_mib),
            "--max-body-mib must be from 1 to 1024, got {}",
            http.max_body_mib
        );
        for (name, duration) in [
            ("--sync-timeout", http.sync_timeout),
            ("--body-timeout", http.body_timeout),
            ("--header-timeout", http.header_timeout),
            ("--write-timeout", http.write_timeout),
            ("--upload-timeout", http.upload_timeout),
            ("--upload-stall-timeout", http.upload_stall_timeout),
            ("--input-fetch-timeout", http.input_fetch_timeout),
            ("--inspection-timeout", http.inspection_timeout),
        ] {
            ensure!(!duration.is_zero(), "{name} must not be zero");
        }
        ensure!(
            http.upload_stall_timeout <= http.upload_timeout,
            "--upload-stall-timeout {:?} is longer than --upload-timeout {:?}",
            http.upload_stall_timeout,
            http.upload_timeout
        );
        ensure!(http.input_grace >= LEAST_INPUT_GRACE, "--input-grace must be at least {LEAST_INPUT_GRACE:?}");
        for (name, number) in [
            ("--max-connections", http.max_connections),
            ("--max-uploads", http.max_uploads),
            ("--max-large-bodies", http.max_large_bodies),
            ("--max-streams-per-tenant", http.max_streams_per_tenant),
        ] {
            ensure!(number > 0, "{name} must be at least 1");
        }
        ensure!(http.requests_per_minute != Some(0), "--requests-per-minute must be at least 1");
        ensure!(http.inspection_memory_mib > 0, "--inspection-memory-mib must be at least 1");
        let usual_share = Options::default().max_uploads_per_tenant;
        if let Some(share) = http.max_uploads_per_tenant {
            let all = http.max_uploads;
            ensure!(
                (1..=all).contains(&share),
                "--max-uploads-per-tenant must be from 1 to --max-uploads {all}, got {share}"
            );
        }
        Ok(Self {
            listen: http.listen,
            options: Options {
                auth: http.auth,
                model_aliases: http.model_alias,
                default_seed: http.default_seed,
                max_body_bytes: http.max_body_mib << 20,
                max_large_bodies: http.max_large_bodies,
                max_uploads: http.max_uploads,
                max_uploads_per_tenant: http.max_uploads_per_tenant.unwrap_or(usual_share).min(http.max_uploads),
                inspection_memory_bytes: http.inspection_memory_mib.saturating_mul(1 << 20),
                inspection_timeout: http.inspection_timeout,
                upload_least_bytes_per_s: http.upload_least_rate_kib.saturating_mul(1 << 10),
                upload_timeout: http.upload_timeout,
                upload_stall_timeout: http.upload_stall_timeout,
                capacity_wait: http.capacity_wait,
                input_fetch_timeout: http.input_fetch_timeout,
                allow_url_hosts: http.allow_url_host,
                requests_per_minute: http.requests_per_minute,
                max_streams_per_tenant: http.max_streams_per_tenant,
                require_live_partition: http.require_live_partition,
                compat_failed_job_http_status: http.compat_failed_job_http_status,
                input_grace: http.input_grace,
                body_timeout: http.body_timeout,
                header_read_timeout: http.header_timeout,
                write_timeout: http.write_timeout,
                max_connections: http.max_connections,
                closing_grace: http.closing_grace,
                sync_timeout: http.sync_timeout,
                poll_after: http.poll_after,
                redirect_content: http.redirect_content,
                ..Options::default()
            },
        })
    }
}

/// Whoever opens a service without keys to other machines has to mean it.
fn refuse_the_open_network(http: &HttpArgs) -> anyhow::Result<()> {
    match http.auth {
        Auth::Keys => ensure!(http.no_auth == 0, "--no-auth contradicts --auth keys: leave one of them out"),
        Auth::Open if http.listen.ip().is_loopback() || http.no_auth >= 2 => {}
        Auth::Open => {
            let advice = match http.no_auth {
                0 => "listen on 127.0.0.1, ask for keys with --auth keys, or say --no-auth twice",
                _ => "--no-auth was said once; say it twice, or listen on 127.0.0.1",
            };
            bail!(
                "--listen {} is reachable from other machines, and this service asks for no keys: anybody there could \
                 use it; {advice}",
                http.listen
            );
        }
    }
    Ok(())
}

fn auth() -> impl TypedValueParser<Value = Auth> {
    PossibleValuesParser::new(["open", "keys"]).map(|name| match name.as_str() {
        "keys" => Auth::Keys,
        _ => Auth::Open,
    })
}

/// Reads an address and a port; names are not looked up, since one may stand for several addresses.
fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| format!("{text:?} is not an address and a port such as 127.0.0.1:8000"))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        http: HttpArgs,
    }

    fn http(arguments: &[&str]) -> anyhow::Result<Http> {
        Http::try_from(Cli::try_parse_from(["api"].iter().chain(arguments))?.http)
    }

    fn refusal(arguments: &[&str]) -> String {
        format!("{:#}", http(arguments).unwrap_err())
    }

    #[test]
    fn without_a_word_only_this_machine_is_served() {
        let http = http(&[]).unwrap();
        assert_eq!((http.listen.to_string().as_str(), http.options.auth), ("127.0.0.1:8000", Auth::Open));
    }

    #[test]
    fn the_defaults_are_those_of_the_http_side_itself() {
        assert_eq!(http(&[]).unwrap().options, Options::default());
    }

    #[test]
    fn other_machines_are_let_in_with_keys_or_when_it_is_said_twice() {
        assert!(
            refusal(&["--listen", "0.0.0.0:8000"]).contains("ask for keys with --auth keys, or say --no-auth twice")
        );
        assert!(refusal(&["--listen", "[::]:8000", "--no-auth"]).contains("--no-auth was said once; say it twice"));
        assert!(http(&["--listen", "0.0.0.0:8000", "--no-auth", "--no-auth"]).is_ok());
        assert!(http(&["--listen", "[::1]:8000"]).is_ok());
        assert_eq!(http(&["--listen", "0.0.0.0:8000", "--auth", "keys"]).unwrap().options.auth, Auth::Keys);
        let refused = refusal(&["--auth", "keys", "--no-auth", "--no-auth"]);
        assert_eq!(refused, "--no-auth contradicts --auth keys: leave one of them out");
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        assert!(refusal(&["--max-body-mib", "0"]).contains("--max-body-mib must be from 1 to 1024, got 0"));
        assert_eq!(refusal(&["--sync-timeout", "0s"]), "--sync-timeout must not be zero");
        assert_eq!(refusal(&["--max-connections", "0"]), "--max-connections must be at least 1");
        assert_eq!(
            refusal(&["--max-uploads", "2", "--max-uploads-per-tenant", "3"]),
            "--max-uploads-per-tenant must be from 1 to --max-uploads 2, got 3"
        );
        assert_eq!(http(&["--max-uploads", "2"]).unwrap().options.max_uploads_per_tenant, 2);
        assert!(refusal(&["--allow-url-host", "nas.home:9000"]).contains("is not a host"));
        assert_eq!(refusal(&["--input-grace", "1s"]), "--input-grace must be at least 10s");
        let refused = refusal(&["--upload-timeout", "10s", "--upload-stall-timeout", "20s"]);
        assert_eq!(refused, "--upload-stall-timeout 20s is longer than --upload-timeout 10s");
    }

    #[test]
    fn an_address_is_asked_for_by_example() {
        for text in ["8000", "localhost:8000", "127.0.0.1"] {
            let refused = refusal(&["--listen", text]);
            let expected = format!("{text:?} is not an address and a port such as 127.0.0.1:8000");
            assert!(refused.contains(&expected), "{refused}");
        }
    }
}
