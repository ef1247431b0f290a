//! How a delivery is signed, as Standard Webhooks has it.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clapboard_jobs::Secret;
use hmac::{Hmac, Mac};
use sha2::Sha256;

/// Signs a body with each of the secrets, and returns what `webhook-signature` says: one signature for each, so that whoever
/// knows any of the secrets can check it.
pub(crate) fn sign(secrets: &[Secret], id: &str, timestamp: i64, body: &[u8]) -> String {
    let signatures: Vec<String> = secrets.iter().map(|secret| one(secret, id, timestamp, body)).collect();
    signatures.join(" ")
}

fn one(secret: &Secret, id: &str, timestamp: i64, body: &[u8]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.bytes()).expect("a key of HMAC may have any length");
    mac.update(format!("{id}.{timestamp}.").as_bytes());
    mac.update(body);
    format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example that the libraries of Standard Webhooks are tested with.
    const ID: &str = "msg_p5jXN8AQM9LWM0D4loKWxJek";
    const TIMESTAMP: i64 = 1_614_265_330;
    const BODY: &[u8] = br#"{"test": 2432232314}"#;
    const SIGNATURE: &str = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";

    fn secret() -> Secret {
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".parse().unwrap()
    }

    #[test]
    fn the_published_example_is_signed_as_it_says() {
        assert_eq!(sign(&[secret()], ID, TIMESTAMP, BODY), SIGNATURE);
    }

    #[test]
    fn an_old_secret_signs_beside_the_new_one() {
        let new = Secret::random();
        let both = sign(&[new.clone(), secret()], ID, TIMESTAMP, BODY);
        assert_eq!(both, format!("{} {SIGNATURE}", sign(&[new], ID, TIMESTAMP, BODY)));
    }

    #[test]
    fn every_part_is_signed() {
        for (id, timestamp, body) in [("msg_x", TIMESTAMP, BODY), (ID, TIMESTAMP + 1, BODY), (ID, TIMESTAMP, b"{}")] {
            assert_ne!(sign(&[secret()], id, timestamp, body), SIGNATURE);
        }
    }
}
