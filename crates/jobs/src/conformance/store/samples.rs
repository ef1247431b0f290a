//! Samples, by which endpoints are tested.

use std::sync::Arc;

use tokio::task::JoinSet;

use super::deliveries::{HOLD, URL, end_one, endpoint, listen, only, page, refused, take, take_one, tell};
use super::*;
use crate::outbox::{DeliveryId, DeliveryQuery, DeliveryState, EndpointId, Notice, Tried};
use crate::store::StoreError;

/// An endpoint can be tried without a job.
pub async fn an_endpoint_is_tried_with_a_test(harness: &impl StoreHarness) {
    let store = harness.store();
    let id = listen(&*store, &tenant()).await;
    let test =
        async |owner: &Tenant, id| store.test_endpoint(owner, id, Notice::Completed).await.expect("the store answers");
    assert_eq!((test(&named("other"), id).await, test(&tenant(), EndpointId::new()).await), (None, None));
    let delivery = test(&tenant(), id).await.expect("the endpoint is there");
    assert_eq!((delivery.notice, delivery.state, delivery.tries), (Notice::Completed, DeliveryState::Pending, 0));
    // Whoever delivers it and whoever lists it can tell it from what a job has ended with.
    assert!(delivery.is_test);
    let due = take_one(&*store).await;
    assert!(due.is_test);
    end_one(&*store, &tenant()).await;
    let listed = page(&*store, &tenant(), DeliveryQuery::default()).await;
    let samples: Vec<DeliveryId> = listed.iter().filter(|one| one.is_test).map(|one| one.id).collect();
    assert_eq!((listed.len(), samples), (2, vec![delivery.id]));
    assert_eq!((due.id, due.job, due.url.as_str()), (delivery.id, delivery.job, URL));
    assert_eq!(store.get(&tenant(), due.job).await.expect("the store answers"), None);
}

/// A test is tried once, disables nothing whatever comes of it, and stands alone.
pub async fn a_test_is_tried_once_and_disables_nothing(harness: &impl StoreHarness) {
    let store = harness.store();
    let id = listen(&*store, &tenant()).await;
    let second = listen(&*store, &tenant()).await;
    let ends = [refused(), Tried::Gone { status: 410 }, Tried::Delivered { status: 200 }];
    for end in ends {
        let is_delivered = matches!(end, Tried::Delivered { .. });
        let mut asking = JoinSet::new();
        for _ in 0..4 {
            let store = Arc::clone(&store);
            asking.spawn(async move { store.test_endpoint(&tenant(), id, Notice::Failed).await });
        }
        let (made, others): (Vec<_>, Vec<_>) = asking.join_all().await.into_iter().partition(Result::is_ok);
        assert_eq!((made.len(), others.len()), (1, 3));
        for answer in others {
            assert!(matches!(answer, Err(StoreError::TestPending { endpoint }) if endpoint == id), "{answer:?}");
        }
        // Under way it is pending too; another endpoint is another matter.
        let due = take_one(&*store).await;
        let again = store.test_endpoint(&tenant(), id, Notice::Failed).await;
        assert!(matches!(again, Err(StoreError::TestPending { .. })), "{again:?}");
        let other = store.test_endpoint(&tenant(), second, Notice::Failed).await.expect("the store answers");
        assert!(other.is_some());
        tell(&*store, &due, end).await;
        tell(&*store, &take_one(&*store).await, Tried::Delivered { status: 200 }).await;
        let told = only(&*store, due.job).await;
        assert_eq!(told.state == DeliveryState::Delivered, is_delivered, "{told:?}");
        assert_ne!(told.state, DeliveryState::Pending);
        assert_eq!(endpoint(&*store, id).await.disabled, None);
    }
    // One of which nothing is heard is not tried again either.
    let lost =
        store.test_endpoint(&tenant(), id, Notice::Failed).await.expect("the store answers").expect("it is there");
    take_one(&*store).await;
    harness.advance(HOLD).await;
    assert_eq!(take(&*store, 10, 10).await, []);
    assert_eq!(only(&*store, lost.job).await.state, DeliveryState::Dead);
}
