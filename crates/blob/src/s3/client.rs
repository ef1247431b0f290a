//! Making the client: HTTP, time limits, region and credentials.

use std::time::Duration;

use aws_config::BehaviorVersion;
use aws_config::retry::RetryConfig;
use aws_config::stalled_stream_protection::StalledStreamProtectionConfig;
use aws_config::timeout::TimeoutConfig;
use aws_sdk_s3::Client;
use aws_sdk_s3::config::{
    Credentials, ProvideCredentials, Region, RequestChecksumCalculation, ResponseChecksumValidation, SharedHttpClient,
};
use aws_smithy_http_client::tls::Provider;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use aws_smithy_runtime_api::client::http::{HttpConnectorSettings, SharedHttpConnector};

use super::error::OpenError;
use super::options::S3Options;
use super::watch::{Watched, WatchedClient};

/// The region that servers with an endpoint of their own take when they do not care.
const ANY_REGION: &str = "us-east-1";

/// How long a connection is kept unused: less than servers and the gateways before them do.
const IDLE_CONNECTION: Duration = Duration::from_secs(15);

/// The first pause before a request is tried again; it doubles from then on.
const FIRST_BACKOFF: Duration = Duration::from_millis(200);

/// The longest such pause.
const MAX_BACKOFF: Duration = Duration::from_secs(5);

/// Makes a client of the bucket's server. It connects only when it is used.
pub(super) async fn connect(options: &S3Options) -> Result<Client, OpenError> {
    let http = SharedHttpClient::new(WatchedClient::new(
        aws_smithy_http_client::Builder::new()
            .pool_idle_timeout(IDLE_CONNECTION)
            .tls_provider(Provider::Rustls(CryptoMode::Ring))
            .build_https(),
        options.stall_timeout,
    ));
    let retries = RetryConfig::standard()
        .with_max_attempts(options.retries + 1)
        .with_initial_backoff(FIRST_BACKOFF)
        .with_max_backoff(MAX_BACKOFF);
    let mut loader = aws_config::defaults(BehaviorVersion::latest())
        .http_client(http)
        .retry_config(retries)
        .timeout_config(TimeoutConfig::builder().connect_timeout(options.connect_timeout).build())
        // The watched client does this for both directions, and for the time between them.
        .stalled_stream_protection(StalledStreamProtectionConfig::disabled());
    match (&options.region, &options.endpoint) {
        (Some(region), _) => loader = loader.region(Region::new(region.clone())),
        (None, Some(_)) => loader = loader.region(Region::from_static(ANY_REGION)),
        (None, None) => {}
    }
    if let (Some(key), Some(secret)) = (&options.access_key_id, &options.secret_access_key) {
        let token = options.session_token.clone();
        loader = loader.credentials_provider(Credentials::new(key, secret, token, None, "settings"));
    }
    let shared = loader.load().await;
    if shared.region().is_none() {
        return Err(OpenError::NoRegion);
    }
    let no_credentials = |source| OpenError::NoCredentials { bucket: options.bucket.clone(), source };
    let credentials = shared.credentials_provider().ok_or_else(|| no_credentials(None))?;
    credentials.provide_credentials().await.map_err(|source| no_credentials(Some(source.into())))?;

    let mut config = aws_sdk_s3::config::Builder::from(&shared)
        .force_path_style(options.path_style)
        // Checksums are ours to choose: many servers do not know the ones that the client adds by itself.
        .request_checksum_calculation(RequestChecksumCalculation::WhenRequired)
        .response_checksum_validation(ResponseChecksumValidation::WhenRequired);
    if let Some(endpoint) = &options.endpoint {
        config = config.endpoint_url(endpoint);
    }
    Ok(Client::from_conf(config.build()))
}

/// Returns where the server is, for a message.
pub(super) fn endpoint(client: &Client, options: &S3Options) -> String {
    let region = client.config().region().map_or(ANY_REGION, Region::as_ref);
    options.endpoint.clone().unwrap_or_else(|| format!("of AWS in {region}"))
}

/// Returns a way to send requests that are not signed.
pub(super) fn anonymous(options: &S3Options) -> SharedHttpConnector {
    let settings = HttpConnectorSettings::builder().connect_timeout(options.connect_timeout).build();
    let connector = aws_smithy_http_client::Connector::builder()
        .connector_settings(settings)
        .tls_provider(Provider::Rustls(CryptoMode::Ring))
        .build();
    SharedHttpConnector::new(Watched::new(connector, options.stall_timeout))
}
