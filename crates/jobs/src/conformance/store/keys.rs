//! The keys by which tenants are known.

use std::time::Duration;

use super::*;
use crate::keyring::{ApiKey, ApiKeyId, Grant, Scope};
use crate::rate::Rate;
use crate::store::StoreError;
use crate::tenant::KeyHash;
use crate::time::Micros;

const FIRST: KeyHash = KeyHash([1; 32]);
const SECOND: KeyHash = KeyHash([2; 32]);

async fn add(store: &dyn Store, hash: KeyHash, key: &ApiKey) {
    store.add_key(&hash, key).await.expect("the key is new");
}

async fn grant(store: &dyn Store, hash: KeyHash) -> Option<Grant> {
    store.grant_of(&hash).await.expect("the store answers")
}

async fn listed(store: &dyn Store, tenant: Option<&Tenant>) -> Vec<ApiKey> {
    store.keys(tenant).await.expect("the store answers")
}

/// A key stands for its tenant, within its scopes and its rate.
pub async fn a_key_grants_what_it_was_made_for(harness: &impl StoreHarness) {
    let store = harness.store();
    assert_eq!(grant(&*store, FIRST).await, None);
    let full = ApiKey::new(tenant(), "laptop");
    let narrow = ApiKey {
        scopes: [Scope::Read].into(),
        rate: Some(Rate { per_minute: 7 }),
        ..ApiKey::new(named("other"), "dashboard")
    };
    add(&*store, FIRST, &full).await;
    add(&*store, SECOND, &narrow).await;
    for (hash, key) in [(FIRST, full), (SECOND, narrow)] {
        let expected = Grant { key: key.id, tenant: key.tenant, scopes: key.scopes, rate: key.rate };
        assert_eq!(grant(&*store, hash).await, Some(expected));
    }
    assert_eq!(grant(&*store, KeyHash([3; 32])).await, None);
}

/// A key that is revoked is good for nothing at once, stays listed, and keeps its first moment.
pub async fn a_revoked_key_grants_nothing(harness: &impl StoreHarness) {
    let store = harness.store();
    let (key, kept) = (ApiKey::new(tenant(), "one"), ApiKey::new(tenant(), "two"));
    add(&*store, FIRST, &key).await;
    add(&*store, SECOND, &kept).await;
    let revoked = store.revoke_key(key.id).await.expect("the store answers").expect("the key is there");
    assert!(revoked.revoked_at.is_some() && revoked.id == key.id && revoked.name == "one");
    assert_eq!(grant(&*store, FIRST).await, None);
    assert!(grant(&*store, SECOND).await.is_some());
    harness.advance(Duration::from_secs(1)).await;
    let again = store.revoke_key(key.id).await.expect("the store answers");
    assert_eq!(again.as_ref(), Some(&revoked));
    assert!(listed(&*store, None).await.contains(&revoked));
    assert_eq!(store.revoke_key(ApiKeyId::new()).await.expect("the store answers"), None);
}

/// Neither an id nor a hash is used twice, also where the first is revoked.
pub async fn no_key_is_added_twice(harness: &impl StoreHarness) {
    let store = harness.store();
    let key = ApiKey::new(tenant(), "one");
    add(&*store, FIRST, &key).await;
    for revoke in [false, true] {
        if revoke {
            store.revoke_key(key.id).await.expect("the store answers");
        }
        let same_hash = ApiKey::new(named("other"), "two");
        let same_id = ApiKey { id: key.id, ..ApiKey::new(named("other"), "two") };
        for (hash, refused) in [(FIRST, same_hash), (SECOND, same_id)] {
            let answer = store.add_key(&hash, &refused).await;
            assert!(matches!(answer, Err(StoreError::DuplicateKey { id }) if id == refused.id), "{answer:?}");
        }
    }
    assert_eq!(listed(&*store, None).await.len(), 1);
    assert_eq!(listed(&*store, Some(&named("other"))).await, []);
}

/// Operators see all keys, or those of one tenant, with everything but what opens.
pub async fn keys_are_listed_as_they_were_made(harness: &impl StoreHarness) {
    let store = harness.store();
    let mut made = Vec::new();
    for (number, owner) in [tenant(), named("other"), tenant()].into_iter().enumerate() {
        let key = ApiKey {
            hint: format!("hint{number}"),
            rate: (number == 1).then_some(Rate { per_minute: u32::MAX }),
            ..ApiKey::new(owner, "Ünï \"code\"")
        };
        add(&*store, KeyHash([u8::try_from(number).expect("a few"); 32]), &key).await;
        made.push(key);
        harness.advance(Duration::from_secs(1)).await;
    }
    let all = listed(&*store, None).await;
    assert!(all.is_sorted_by_key(|key| key.created_at));
    assert!(all.iter().all(|key| key.created_at > Micros(0)));
    let told: Vec<ApiKey> = all.into_iter().map(|key| ApiKey { created_at: Micros(0), ..key }).collect();
    assert_eq!(told, made);
    let ids = |keys: Vec<ApiKey>| keys.into_iter().map(|key| key.id).collect::<Vec<ApiKeyId>>();
    assert_eq!(ids(listed(&*store, Some(&tenant())).await), [made[0].id, made[2].id]);
    assert_eq!(ids(listed(&*store, Some(&named("nobody"))).await), []);
}
