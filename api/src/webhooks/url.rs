//! Where webhooks may be sent to, as far as it can be seen of a URL.

use clapboard_outbound::Forbidden;
use url::Url;

use crate::error::ApiError;
use crate::error_code::ErrorCode;
use crate::options::Options;
use crate::plain_url::is_plain;

/// The most that the URL of a webhook may have, in bytes.
const MAX_URL_BYTES: usize = 2048;

/// Checks the URL of a webhook; the caller adds which parameter has given it. What is returned is as it will be asked, and so is
/// what to store and to show. Its host's name is looked up when something is to be sent, and looked at then.
///
/// Errors: `invalid_webhook_url`, and `webhook_url_forbidden` for an address or a port where no request may go.
pub(crate) fn check(text: &str, options: &Options) -> Result<Url, ApiError> {
    let invalid = |rule: String| Err(ApiError::new(ErrorCode::InvalidWebhookUrl, rule));
    let too_long = || invalid(format!("the URL of a webhook must have at most {MAX_URL_BYTES} bytes"));
    if text.len() > MAX_URL_BYTES {
        return too_long();
    }
    // A parser of URLs drops what is blank around and within.
    let is_blank = text.chars().any(|c| c.is_whitespace() || c.is_control());
    let Some(url) = Url::parse(text).ok().filter(|_| !is_blank) else {
        return invalid("a webhook needs an https URL".to_owned());
    };
    match options.webhook_rules().check(&url) {
        Ok(()) if !is_plain(text, &url) => {
            let scheme = url.scheme();
            invalid(format!("the URL of a webhook must begin with {scheme}:// and its host, and with nothing else"))
        }
        // What is not ASCII has become longer.
        Ok(()) if url.as_str().len() > MAX_URL_BYTES => too_long(),
        Ok(()) => Ok(url),
        Err(Forbidden::Scheme | Forbidden::Plaintext) => invalid("the scheme of a webhook must be https".to_owned()),
        Err(rule @ Forbidden::Credentials) => invalid(rule.to_string()),
        Err(rule @ (Forbidden::Address | Forbidden::Port(_))) => {
            Err(ApiError::new(ErrorCode::WebhookUrlForbidden, rule.to_string()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_webhook_goes_by_https_to_the_public_internet() {
        let options = Options { allow_http_webhook_hosts: vec!["nas.home".to_owned()], ..Options::default() };
        for good in
            ["https://a.example/hook?x=1", "https://a.example:8443", "http://nas.home:9000/x", "https://8.8.8.8/"]
        {
            assert!(check(good, &options).is_ok(), "{good}");
        }
        let long = format!("https://a.example/{}", "x".repeat(MAX_URL_BYTES));
        let longer = format!("https://a.example/{}", "\u{e4}".repeat(MAX_URL_BYTES / 4));
        for (wrong, code) in [
            ("", ErrorCode::InvalidWebhookUrl),
            ("a.example/hook", ErrorCode::InvalidWebhookUrl),
            ("http://a.example/", ErrorCode::InvalidWebhookUrl),
            ("ftp://a.example/", ErrorCode::InvalidWebhookUrl),
            ("https://me:secret@a.example/", ErrorCode::InvalidWebhookUrl),
            (" https://a.example/", ErrorCode::InvalidWebhookUrl),
            ("https://a.exa\nmple/", ErrorCode::InvalidWebhookUrl),
            (&long, ErrorCode::InvalidWebhookUrl),
            (&longer, ErrorCode::InvalidWebhookUrl),
            ("https:///a.example", ErrorCode::InvalidWebhookUrl),
            ("https:a.example", ErrorCode::InvalidWebhookUrl),
            ("https://a.example\\@8.8.8.8/", ErrorCode::InvalidWebhookUrl),
            ("https://@a.example/", ErrorCode::InvalidWebhookUrl),
            ("https://127.0.0.1/", ErrorCode::WebhookUrlForbidden),
            ("https://2852039166/", ErrorCode::WebhookUrlForbidden),
            ("https://[::ffff:10.0.0.1]/", ErrorCode::WebhookUrlForbidden),
            ("https://a.example:22/", ErrorCode::WebhookUrlForbidden),
        ] {
            let refused = check(wrong, &options).unwrap_err();
            assert_eq!(refused.code, code, "{wrong}");
            assert!(!refused.message.contains("secret"), "{}", refused.message);
        }
    }
}
