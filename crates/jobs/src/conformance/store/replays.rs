//! What is told once more.

use super::deliveries::{DAYS, URL, end_hooked, end_one, listen, only, refused, take, take_one, tell};
use super::*;
use crate::outbox::{DeliveryId, DeliveryState, EndpointChange, EndpointId, MAX_TRIES, Notice, Receiver, Tried};
use crate::store::StoreError;

/// What was given up or delivered can be told once more from the beginning, and what waits at once.
pub async fn a_delivery_is_replayed(harness: &impl StoreHarness) {
    let store = harness.store();
    let hearing = listen(&*store, &tenant()).await;
    let job = end_one(&*store, &tenant()).await;
    let id = only(&*store, job).await.id;
    let replay = async |owner: &Tenant| store.replay(owner, id).await.expect("the store answers");
    assert_eq!(replay(&named("other")).await, None);
    // While it is being tried it is not tried beside that.
    let held = take_one(&*store).await;
    replay(&tenant()).await.expect("it is there");
    assert_eq!(take(&*store, 10, 10).await, []);
    tell(&*store, &held, refused()).await;
    let waiting = replay(&tenant()).await.expect("it is there");
    assert_eq!((waiting.state, waiting.tries), (DeliveryState::Pending, 1));
    let second = take_one(&*store).await;
    assert_eq!(second.number, 2);
    let enable = EndpointChange { enabled: Some(true), ..EndpointChange::default() };
    for end in [Tried::Delivered { status: 200 }, Tried::Gone { status: 410 }] {
        let due = if end == (Tried::Delivered { status: 200 }) { second.clone() } else { take_one(&*store).await };
        tell(&*store, &due, end).await;
        assert_ne!(only(&*store, job).await.state, DeliveryState::Pending);
        store.change_endpoint(&tenant(), hearing, &enable).await.expect("the store answers");
        let again = replay(&tenant()).await.expect("it is there");
        assert_eq!((again.state, again.tries, again.delivered_at), (DeliveryState::Pending, 0, None));
        assert!(again.next_try_at.is_some());
    }
    assert_eq!(store.replay(&tenant(), DeliveryId(EndpointId::new().0)).await.expect("the store answers"), None);
    // It may die once more.
    for number in 1..=MAX_TRIES {
        harness.advance(DAYS).await;
        let due = take_one(&*store).await;
        assert_eq!(due.number, number);
        tell(&*store, &due, refused()).await;
    }
    assert_eq!(only(&*store, job).await.state, DeliveryState::Dead);
}

/// Nothing is to be told to an endpoint that is disabled, so a replay is refused and changes nothing; the URL of a single job
/// cannot be disabled.
pub async fn a_delivery_to_a_disabled_endpoint_is_not_replayed(harness: &impl StoreHarness) {
    let store = harness.store();
    let id = listen(&*store, &tenant()).await;
    let job = end_hooked(&*store, &tenant(), &Notice::ALL).await;
    for due in take(&*store, 10, 10).await {
        tell(&*store, &due, Tried::Delivered { status: 200 }).await;
    }
    let of = async |receiver: &Receiver| {
        let all = store.deliveries_of(&tenant(), job).await.expect("the store answers");
        all.into_iter().find(|delivery| delivery.receiver == *receiver).expect("it was told")
    };
    let (by_endpoint, by_job) = (Receiver::Endpoint(id), Receiver::Job { url: format!("{URL}/job") });
    let told = of(&by_endpoint).await;
    for enabled in [false, true] {
        let change = EndpointChange { enabled: Some(enabled), ..EndpointChange::default() };
        store.change_endpoint(&tenant(), id, &change).await.expect("the store answers");
        let replayed = store.replay(&tenant(), told.id).await;
        if enabled {
            assert_eq!(replayed.expect("the store answers").expect("it is there").state, DeliveryState::Pending);
        } else {
            let refused = matches!(&replayed, Err(StoreError::EndpointDisabled { endpoint }) if *endpoint == id);
            assert!(refused, "{replayed:?}");
            assert_eq!(of(&by_endpoint).await, told);
            // Another tenant hears nothing of it.
            assert_eq!(store.replay(&named("other"), told.id).await.expect("the store answers"), None);
            let hooked = of(&by_job).await.id;
            let hooked = store.replay(&tenant(), hooked).await.expect("the store answers").expect("it is there");
            assert_eq!(hooked.state, DeliveryState::Pending);
        }
    }
}
