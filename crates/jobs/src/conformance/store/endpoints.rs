//! Where tenants want to hear of their jobs, and what signs.

use std::time::Duration;

use super::*;
use crate::outbox::{Delivery, Due, Endpoint, EndpointChange, EndpointId, MAX_ENDPOINTS, Notice, Secret, Tried};
use crate::store::StoreError;
use crate::time::Micros;

const URL: &str = "https://example.org/hooks";

async fn add(store: &dyn Store, owner: &Tenant) -> Endpoint {
    let endpoint = Endpoint::new(owner.clone(), URL);
    store.add_endpoint(&endpoint).await.expect("the store answers");
    get_endpoint(store, owner, endpoint.id).await.expect("it was added")
}

async fn get_endpoint(store: &dyn Store, owner: &Tenant, id: EndpointId) -> Option<Endpoint> {
    store.endpoint(owner, id).await.expect("the store answers")
}

async fn change(store: &dyn Store, id: EndpointId, change: EndpointChange) -> Option<Endpoint> {
    store.change_endpoint(&tenant(), id, &change).await.expect("the store answers")
}

async fn told(store: &dyn Store, id: JobId) -> Vec<Delivery> {
    store.deliveries_of(&tenant(), id).await.expect("the store answers")
}

async fn due(store: &dyn Store) -> Vec<Due> {
    store.take_due(100, 100, 100, Duration::from_secs(1)).await.expect("the store answers")
}

async fn cancelled(store: &dyn Store) -> JobId {
    let id = create(store).await.id;
    store.cancel(&tenant(), id).await.expect("the store answers");
    id
}

/// What was said of an endpoint is read back, by its tenant alone, in the order in which they were made.
pub async fn an_endpoint_is_read_back(harness: &impl StoreHarness) {
    let store = harness.store();
    let old = Some((Secret::random(), store.now().await.expect("the store answers").plus(Duration::from_secs(60))));
    let made = Endpoint {
        name: "Ünï \"hooks\"".to_owned(),
        notices: vec![Notice::Failed],
        old_secret: old,
        disabled: Some((Micros(5), "away".to_owned())),
        ..Endpoint::new(tenant(), URL)
    };
    store.add_endpoint(&made).await.expect("the store answers");
    let kept = get_endpoint(&*store, &tenant(), made.id).await.expect("it was added");
    assert!(kept.created_at > Micros(0));
    assert_eq!(kept.updated_at, kept.created_at);
    assert_eq!(kept, Endpoint { created_at: kept.created_at, updated_at: kept.created_at, ..made.clone() });
    harness.advance(Duration::from_secs(1)).await;
    let second = add(&*store, &tenant()).await;
    add(&*store, &named("other")).await;
    let listed = store.endpoints(&tenant()).await.expect("the store answers");
    assert_eq!(listed, [kept, second]);
    assert_eq!(get_endpoint(&*store, &named("other"), made.id).await, None);
    assert_eq!(get_endpoint(&*store, &tenant(), EndpointId::new()).await, None);
}

/// A tenant has only so many, however many it adds at once; one that is there already can be added once more.
pub async fn a_tenant_has_only_so_many_endpoints(harness: &impl StoreHarness) {
    let store = harness.store();
    let mut adding = tokio::task::JoinSet::new();
    for _ in 0..MAX_ENDPOINTS + 8 {
        let store = Arc::clone(&store);
        adding.spawn(async move { store.add_endpoint(&Endpoint::new(tenant(), URL)).await });
    }
    let (added, refused): (Vec<_>, Vec<_>) = adding.join_all().await.into_iter().partition(Result::is_ok);
    assert_eq!((added.len(), refused.len()), (MAX_ENDPOINTS as usize, 8));
    for answer in refused {
        assert!(matches!(answer, Err(StoreError::TooManyEndpoints { limit: MAX_ENDPOINTS })), "{answer:?}");
    }
    let endpoints = store.endpoints(&tenant()).await.expect("the store answers");
    assert_eq!(endpoints.len(), MAX_ENDPOINTS as usize);
    store.add_endpoint(&endpoints[0]).await.expect("it replaces itself");
    add(&*store, &named("other")).await;
    assert!(store.delete_endpoint(&tenant(), endpoints[0].id).await.expect("the store answers"));
    add(&*store, &tenant()).await;
}

/// The moment of the last change is that of a change: what is said again is none, nor is what the service does by itself.
pub async fn an_endpoint_tells_when_it_was_changed(harness: &impl StoreHarness) {
    let store = harness.store();
    let made = add(&*store, &tenant()).await;
    assert_eq!(made.updated_at, made.created_at);
    let mut last = made.updated_at;
    let none = EndpointChange::default;
    for (says, changes) in [
        (none(), false),
        (
            EndpointChange { url: Some(made.url.clone()), name: Some(String::new()), enabled: Some(true), ..none() },
            false,
        ),
        (EndpointChange { name: Some("one".to_owned()), ..none() }, true),
        (EndpointChange { url: Some("https://example.org/moved".to_owned()), ..none() }, true),
        (EndpointChange { notices: Some(vec![Notice::Failed]), ..none() }, true),
        (EndpointChange { notices: Some(vec![Notice::Failed]), ..none() }, false),
        (EndpointChange { enabled: Some(false), ..none() }, true),
        (EndpointChange { enabled: Some(false), ..none() }, false),
        (EndpointChange { enabled: Some(true), ..none() }, true),
    ] {
        harness.advance(Duration::from_secs(1)).await;
        let changed = change(&*store, made.id, says.clone()).await.expect("it is there");
        assert_eq!(changed.updated_at > last, changes, "{says:?}");
        assert_eq!(changed.created_at, made.created_at);
        last = changed.updated_at;
    }
    harness.advance(Duration::from_secs(1)).await;
    let rotated = store.rotate_secret(&tenant(), made.id, &Secret::random(), None).await.expect("the store answers");
    assert!(rotated.expect("it is there").updated_at > last);
}

/// Only what is named changes, and only for whom it belongs to.
pub async fn an_endpoint_is_changed_field_by_field(harness: &impl StoreHarness) {
    let store = harness.store();
    let before = add(&*store, &tenant()).await;
    let unchanged = change(&*store, before.id, EndpointChange::default()).await;
    assert_eq!(unchanged.as_ref(), Some(&before));
    let moved = EndpointChange { url: Some("https://example.org/moved".to_owned()), ..EndpointChange::default() };
    let moved = change(&*store, before.id, moved).await.expect("it is there");
    let updated_at = moved.updated_at;
    assert_eq!(moved, Endpoint { url: "https://example.org/moved".to_owned(), updated_at, ..before.clone() });
    let named_so = EndpointChange {
        name: Some("one".to_owned()),
        notices: Some(vec![Notice::Completed]),
        ..EndpointChange::default()
    };
    let changed = change(&*store, before.id, named_so.clone()).await.expect("it is there");
    let updated_at = changed.updated_at;
    let expected = Endpoint { name: "one".to_owned(), notices: vec![Notice::Completed], updated_at, ..moved };
    assert_eq!(changed, expected);
    let foreign = store.change_endpoint(&named("other"), before.id, &named_so).await.expect("the store answers");
    assert_eq!((foreign, change(&*store, EndpointId::new(), named_so).await), (None, None));
    assert_eq!(get_endpoint(&*store, &tenant(), before.id).await, Some(expected));
}

/// Nothing is written for a disabled endpoint and nothing that waits is sent to it; once enabled it hears of later ends, and what
/// waited goes on.
pub async fn a_disabled_endpoint_hears_nothing(harness: &impl StoreHarness) {
    let store = harness.store();
    let endpoint = add(&*store, &tenant()).await;
    let before = cancelled(&*store).await;
    let enable = |enabled| EndpointChange { enabled: Some(enabled), ..EndpointChange::default() };
    let disabled = change(&*store, endpoint.id, enable(false)).await.expect("it is there").disabled;
    assert!(disabled.is_some());
    harness.advance(Duration::from_secs(1)).await;
    // The first moment stays.
    assert_eq!(change(&*store, endpoint.id, enable(false)).await.expect("it is there").disabled, disabled);
    let meanwhile = cancelled(&*store).await;
    assert_eq!((told(&*store, before).await.len(), told(&*store, meanwhile).await.len()), (1, 0));
    assert_eq!(due(&*store).await, []);
    assert_eq!(store.next_delivery(Micros(0)).await.expect("the store answers"), None);

    assert_eq!(change(&*store, endpoint.id, enable(true)).await.expect("it is there").disabled, None);
    let after = cancelled(&*store).await;
    assert_eq!(due(&*store).await.iter().map(|due| due.job).collect::<Vec<_>>(), [before, after]);
}

/// An endpoint hears only of what it asked for.
pub async fn an_endpoint_hears_of_what_it_subscribes_to(harness: &impl StoreHarness) {
    let store = harness.store();
    let mut endpoints = Vec::new();
    for notices in [vec![Notice::Completed], vec![Notice::Failed], vec![]] {
        let endpoint = Endpoint { notices, ..Endpoint::new(tenant(), URL) };
        store.add_endpoint(&endpoint).await.expect("the store answers");
        endpoints.push(endpoint.id);
    }
    let lease = running(&*store).await;
    store.finish(&lease, completed(&lease)).await.expect("the lease holds");
    let failed = cancelled(&*store).await;
    for (job, notice, endpoint) in
        [(lease.job, Notice::Completed, endpoints[0]), (failed, Notice::Failed, endpoints[1])]
    {
        let told = told(&*store, job).await;
        assert_eq!(told.len(), 1);
        assert_eq!((told[0].notice, &told[0].receiver), (notice, &crate::outbox::Receiver::Endpoint(endpoint)));
    }
}

/// The old secret signs beside the new one for as long as it was given, and then is nobody's any more.
pub async fn an_old_secret_signs_until_its_time(harness: &impl StoreHarness) {
    let store = harness.store();
    let first = add(&*store, &tenant()).await;
    let hour = Duration::from_secs(3600);
    let rotate = async |secret: &Secret, keep_old| {
        store
            .rotate_secret(&tenant(), first.id, secret, keep_old)
            .await
            .expect("the store answers")
            .expect("it is there")
    };
    let (second, third) = (Secret::random(), Secret::random());
    let before = store.now().await.expect("the store answers");
    let rotated = rotate(&second, Some(hour)).await;
    let (old, until) = rotated.old_secret.expect("it is kept");
    assert_eq!((&rotated.secret, &old), (&second, &first.secret));
    assert!(until >= before.plus(hour));
    let job = cancelled(&*store).await;
    let taken = due(&*store).await;
    assert_eq!((taken.len(), taken[0].job), (1, job));
    assert_eq!(taken[0].secrets, [second.clone(), first.secret.clone()]);

    harness.advance(hour).await;
    let later = get_endpoint(&*store, &tenant(), first.id).await.expect("it is there");
    assert_eq!((later.secret, later.old_secret), (second.clone(), None));
    assert_eq!(due(&*store).await[0].secrets, std::slice::from_ref(&second));

    let rotated = rotate(&third, None).await;
    assert_eq!((rotated.secret, rotated.old_secret), (third, None));
    let foreign = store.rotate_secret(&named("other"), first.id, &second, None).await.expect("the store answers");
    assert_eq!(foreign, None);
}

/// A deleted endpoint takes with it what was told and what was to be told to it, and nothing else.
pub async fn a_deleted_endpoint_is_told_nothing_more(harness: &impl StoreHarness) {
    let store = harness.store();
    let (gone, kept) = (add(&*store, &tenant()).await, add(&*store, &tenant()).await);
    let before = cancelled(&*store).await;
    for due in due(&*store).await {
        store.tried(due.id, due.number, &Tried::Delivered { status: 200 }).await.expect("the store answers");
    }
    let job = cancelled(&*store).await;
    assert!(!store.delete_endpoint(&named("other"), gone.id).await.expect("the store answers"));
    assert_eq!(told(&*store, job).await.len(), 2);
    assert!(store.delete_endpoint(&tenant(), gone.id).await.expect("the store answers"));
    assert!(!store.delete_endpoint(&tenant(), gone.id).await.expect("the store answers"));
    assert_eq!(store.endpoints(&tenant()).await.expect("the store answers"), std::slice::from_ref(&kept));
    for job in [before, job] {
        let left = told(&*store, job).await;
        assert_eq!(left.len(), 1);
        assert_eq!(left[0].receiver, crate::outbox::Receiver::Endpoint(kept.id));
    }
    assert_eq!(due(&*store).await.len(), 1);
}

/// Whoever asks first gives the tenant its secret; everybody else gets the same.
pub async fn a_tenant_has_one_secret_for_its_jobs(harness: &impl StoreHarness) {
    let store = harness.store();
    let mut asking = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let store = Arc::clone(&store);
        asking.spawn(async move {
            store.hook_secret(&tenant(), &Secret::random()).await.expect("the store answers").expose()
        });
    }
    let secrets = asking.join_all().await;
    assert!(secrets.iter().all(|secret| *secret == secrets[0]), "{} different ones", secrets.len());
    let again = store.hook_secret(&tenant(), &Secret::random()).await.expect("the store answers");
    assert_eq!(again.expose(), secrets[0]);
    let candidate = Secret::random();
    let other = store.hook_secret(&named("other"), &candidate).await.expect("the store answers");
    assert_eq!(other, candidate);
}
