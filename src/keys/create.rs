//! `clapboard keys create`.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clapboard_jobs::{ApiKey, KeyHash, Rate, Scope, Tenant};
use sha2::{Digest, Sha256};

use super::object;
use crate::output;
use crate::settings::JobStoreArgs;

/// What every key begins with, so that people and scanners know one when they see it.
const PREFIX: &str = "sk-clapboard-";
/// How many characters of a key are kept, to tell keys apart.
const HINT_CHARS: usize = 4;
/// The longest name of a key, in characters.
const MAX_NAME_CHARS: usize = 100;

/// Make an API key and print it: this is the only time that it is shown, since only its hash is kept
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    from: JobStoreArgs,
    /// The tenant that it stands for: 1 to 64 of a-z, A-Z, 0-9, _ and -
    #[arg(long, env = "CLAPBOARD_TENANT", value_name = "NAME", default_value_t = Tenant::default())]
    tenant: Tenant,
    /// What to call it, in at most 100 characters
    #[arg(long, value_name = "TEXT", default_value = "", value_parser = name)]
    name: String,
    /// What it is good for, separated by commas: videos:read, videos:write, webhooks [default: all of them]
    #[arg(long, value_name = "SCOPES", value_delimiter = ',', value_parser = scope())]
    scope: Vec<Scope>,
    /// How many videos may be asked for with it in a minute [default: as the service lets everybody]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    requests_per_minute: Option<u32>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(args: Args) -> anyhow::Result<()> {
    let store = args.from.open().await?;
    let secret = random_key();
    let all = args.scope.is_empty();
    let key = ApiKey {
        hint: secret[secret.len() - HINT_CHARS..].to_owned(),
        scopes: if all { Scope::ALL.into() } else { args.scope.into_iter().collect() },
        rate: args.requests_per_minute.map(|per_minute| Rate { per_minute }),
        ..ApiKey::new(args.tenant, args.name)
    };
    store.add_key(&KeyHash(Sha256::digest(&secret).into()), &key).await?;
    if args.json {
        let mut object = object(&key);
        object["key"] = secret.into();
        // The store's clock says when, and was not asked.
        object.as_object_mut().expect("a key is described by an object").remove("created_at");
        output::json(&object);
    } else {
        // The key alone goes to standard output, so that a script can take it from there.
        output::line(format_args!("{secret}"));
        output::error_line(format_args!("{} for tenant {}: keep the key, it is not shown again", key.id, key.tenant));
    }
    Ok(())
}

/// Draws a key of 32 random bytes.
fn random_key() -> String {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).expect("the system has random bytes");
    format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes))
}

fn scope() -> impl TypedValueParser<Value = Scope> {
    PossibleValuesParser::new(Scope::ALL.map(Scope::as_str))
        .map(|name| name.parse().expect("only names of scopes are possible"))
}

fn name(text: &str) -> Result<String, String> {
    match text.chars().count() {
        ..=MAX_NAME_CHARS => Ok(text.to_owned()),
        length => Err(format!("a name has at most {MAX_NAME_CHARS} characters, not {length}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_long_random_and_fit_for_a_header() {
        let (one, other) = (random_key(), random_key());
        assert_ne!(one, other);
        assert_eq!(one.len(), PREFIX.len() + 43);
        assert!(one.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')), "{one}");
    }
}
