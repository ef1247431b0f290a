//! How what is to be told gets to whom it is for.

use std::collections::HashSet;
use std::time::Duration;

use tokio::task::JoinSet;

use super::*;
use crate::outbox::{
    Delivery, DeliveryId, DeliveryQuery, DeliveryState, Due, Endpoint, EndpointChange, EndpointId, JobHook, MAX_TRIES,
    Notice, Receiver, Secret, Tried, reasons,
};
use crate::store::StoreError;
use crate::time::Micros;

pub(super) const URL: &str = "https://example.org/hooks";
pub(super) const HOLD: Duration = Duration::from_secs(20);
pub(super) const DAYS: Duration = Duration::from_secs(2 * 24 * 3600);

pub(super) async fn listen(store: &dyn Store, owner: &Tenant) -> EndpointId {
    let endpoint = Endpoint::new(owner.clone(), URL);
    store.add_endpoint(&endpoint).await.expect("the store answers");
    endpoint.id
}

pub(super) async fn end_one(store: &dyn Store, owner: &Tenant) -> JobId {
    let id = make_for(store, owner).await.id;
    store.cancel(owner, id).await.expect("the store answers");
    id
}

/// Ends a job whose client wants to hear of it.
pub(super) async fn end_hooked(store: &dyn Store, owner: &Tenant, notices: &[Notice]) -> JobId {
    let hook = JobHook { url: format!("{URL}/job"), notices: notices.to_vec() };
    let id = make(store, |new| (new.tenant, new.hook) = (owner.clone(), Some(hook))).await.id;
    store.cancel(owner, id).await.expect("the store answers");
    id
}

pub(super) async fn take(store: &dyn Store, limit: u32, per_receiver: u32) -> Vec<Due> {
    store.take_due(limit, per_receiver, 1_000, HOLD).await.expect("the store answers")
}

pub(super) async fn take_one(store: &dyn Store) -> Due {
    let mut taken = take(store, 10, 10).await;
    assert_eq!(taken.len(), 1, "{taken:?}");
    taken.remove(0)
}

pub(super) async fn tell(store: &dyn Store, due: &Due, tried: Tried) {
    store.tried(due.id, due.number, &tried).await.expect("the store answers");
}

pub(super) fn refused() -> Tried {
    Tried::Failed { status: Some(500), error: "answered 500".to_owned(), after: None }
}

pub(super) async fn page(store: &dyn Store, owner: &Tenant, query: DeliveryQuery) -> Vec<Delivery> {
    store.deliveries(owner, &query).await.expect("the store answers").deliveries
}

pub(super) async fn only(store: &dyn Store, job: JobId) -> Delivery {
    let mut all = store.deliveries_of(&tenant(), job).await.expect("the store answers");
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

pub(super) async fn endpoint(store: &dyn Store, id: EndpointId) -> Endpoint {
    store.endpoint(&tenant(), id).await.expect("the store answers").expect("it is there")
}

/// Lets a delivery fail until it is given up.
async fn give_up(harness: &impl StoreHarness, job: JobId) {
    let store = harness.store();
    for number in 1..=MAX_TRIES {
        let due = take_one(&*store).await;
        assert_eq!((due.job, due.number), (job, number));
        tell(&*store, &due, refused()).await;
        harness.advance(DAYS).await;
    }
    assert_eq!(only(&*store, job).await.state, DeliveryState::Dead);
}

/// A delivery is taken by one, held, and done once its receiver has it.
pub async fn a_delivery_is_tried_until_it_is_delivered(harness: &impl StoreHarness) {
    let store = harness.store();
    let id = listen(&*store, &tenant()).await;
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".parse().ok();
    let job = make(&*store, |new| new.trace.clone_from(&trace)).await.id;
    store.cancel(&tenant(), job).await.expect("the store answers");
    let waiting = only(&*store, job).await;
    assert_eq!((waiting.state, waiting.tries, waiting.delivered_at), (DeliveryState::Pending, 0, None));
    assert_eq!((waiting.next_try_at, &waiting.receiver), (Some(waiting.created_at), &Receiver::Endpoint(id)));

    let due = take_one(&*store).await;
    let secrets = vec![endpoint(&*store, id).await.secret];
    let (created_at, notice) = (waiting.created_at, Notice::Failed);
    let expected = Due {
        id: waiting.id,
        tenant: tenant(),
        url: URL.to_owned(),
        secrets,
        job,
        notice,
        created_at,
        number: 1,
        trace,
        is_test: false,
    };
    assert_eq!(due, expected);
    assert_eq!(take(&*store, 10, 10).await, []);
    tell(&*store, &due, refused()).await;
    let failed = only(&*store, job).await;
    assert_eq!((failed.tries, failed.last_status, failed.last_error.as_deref()), (1, Some(500), Some("answered 500")));
    assert_eq!(take(&*store, 10, 10).await, []);
    harness.advance(Duration::from_secs(6)).await;
    let again = take_one(&*store).await;
    assert_eq!((again.id, again.number), (due.id, 2));
    tell(&*store, &again, Tried::Delivered { status: 204 }).await;
    let done = only(&*store, job).await;
    assert_eq!((done.state, done.tries, done.next_try_at), (DeliveryState::Delivered, 2, None));
    assert_eq!((done.last_status, done.last_error.clone(), done.delivered_at.is_some()), (Some(204), None, true));
    harness.advance(DAYS).await;
    assert_eq!(take(&*store, 10, 10).await, []);
}

/// A receiver that asks for more time than the schedule gives gets it.
pub async fn a_receiver_may_ask_for_time(harness: &impl StoreHarness) {
    let store = harness.store();
    listen(&*store, &tenant()).await;
    let job = end_one(&*store, &tenant()).await;
    let due = take_one(&*store).await;
    let asked = Duration::from_secs(1_000);
    let busy = Tried::Failed { status: Some(503), error: "answered 503".to_owned(), after: Some(asked) };
    let before = store.now().await.expect("the store answers");
    tell(&*store, &due, busy).await;
    let next = only(&*store, job).await.next_try_at.expect("it is tried again");
    assert!(next >= before.plus(asked), "{next:?}");
    assert_eq!(store.next_delivery(before).await.expect("the store answers"), Some(next));
    assert_eq!(store.next_delivery(next).await.expect("the store answers"), None);
    harness.advance(asked - Duration::from_secs(60)).await;
    assert_eq!(take(&*store, 10, 10).await, []);
    harness.advance(Duration::from_secs(60) + asked / 5).await;
    assert_eq!(take_one(&*store).await.number, 2);
}

/// Whoever takes a delivery and is not heard of is taken to be dead; what it says later changes nothing, unless the receiver has
/// the delivery.
pub async fn a_lost_try_changes_nothing_unless_it_delivered(harness: &impl StoreHarness) {
    let store = harness.store();
    let id = listen(&*store, &tenant()).await;
    let job = end_one(&*store, &tenant()).await;
    let lost = take_one(&*store).await;
    harness.advance(HOLD).await;
    let second = take_one(&*store).await;
    assert_eq!((second.id, second.number), (lost.id, 2));
    let before = only(&*store, job).await;
    tell(&*store, &lost, refused()).await;
    tell(&*store, &lost, Tried::Gone { status: 410 }).await;
    assert_eq!(only(&*store, job).await, before);
    assert_eq!(endpoint(&*store, id).await.disabled, None);
    tell(&*store, &lost, Tried::Delivered { status: 200 }).await;
    let delivered = only(&*store, job).await;
    assert_eq!(delivered.state, DeliveryState::Delivered);
    tell(&*store, &second, refused()).await;
    assert_eq!(only(&*store, job).await, delivered);
    let unknown = DeliveryId(EndpointId::new().0);
    store.tried(unknown, 1, &refused()).await.expect("nobody minds");
}

/// Whoever asks for time, or is overloaded, is left alone with all that waits for it, until then or until something has reached
/// it; others are not.
pub async fn a_receiver_is_left_alone_with_its_backlog(harness: &impl StoreHarness) {
    let store = harness.store();
    let id = listen(&*store, &tenant()).await;
    for _ in 0..6 {
        end_one(&*store, &tenant()).await;
    }
    let asked = Duration::from_secs(3_600);
    let failed = |status, after| Tried::Failed { status: Some(status), error: "busy".to_owned(), after };
    let [late, busy] = <[Due; 2]>::try_from(take(&*store, 2, 2).await).expect("two are due");
    let before = store.now().await.expect("the store answers");
    tell(&*store, &busy, failed(429, Some(asked))).await;
    assert_eq!(take(&*store, 10, 10).await, []);
    // A shorter rest does not end the longer one.
    tell(&*store, &late, failed(502, None)).await;
    let next = store.next_delivery(before).await.expect("the store answers").expect("they wait");
    assert!(next >= before.plus(asked), "{next:?}");
    listen(&*store, &named("other")).await;
    let other = end_one(&*store, &named("other")).await;
    let due = take_one(&*store).await;
    assert_eq!(due.job, other);
    tell(&*store, &due, Tried::Delivered { status: 200 }).await;
    harness.advance(asked - Duration::from_secs(60)).await;
    assert_eq!(take(&*store, 10, 10).await, []);
    harness.advance(Duration::from_secs(60)).await;

    // It is overloaded without saying for how long; then something reaches it.
    let [first, second] = <[Due; 2]>::try_from(take(&*store, 2, 2).await).expect("they go on");
    tell(&*store, &first, failed(503, None)).await;
    assert_eq!(take(&*store, 10, 10).await, []);
    tell(&*store, &second, Tried::Delivered { status: 200 }).await;
    assert_eq!(take(&*store, 1, 10).await.len(), 1);
    // Whoever enables it, or moves it, wants it to hear now.
    for change in [
        EndpointChange { enabled: Some(true), ..EndpointChange::default() },
        EndpointChange { url: Some(format!("{URL}/moved")), ..EndpointChange::default() },
    ] {
        harness.advance(HOLD).await;
        let due = take(&*store, 1, 10).await.pop().expect("some wait");
        tell(&*store, &due, failed(504, Some(asked))).await;
        harness.advance(HOLD).await;
        assert_eq!(take(&*store, 10, 10).await, []);
        store.change_endpoint(&tenant(), id, &change).await.expect("the store answers").expect("it is there");
        assert_eq!(take(&*store, 1, 10).await.len(), 1);
    }
}

/// Of two tenants whose receivers hang, however many they have, neither holds up a third.
pub async fn tenants_take_turns(harness: &impl StoreHarness) {
    let store = harness.store();
    let hanging = [named("one"), named("two")];
    for owner in &hanging {
        for _ in 0..4 {
            listen(&*store, owner).await;
        }
        for _ in 0..3 {
            end_one(&*store, owner).await;
        }
        end_hooked(&*store, owner, &Notice::ALL).await;
    }
    harness.advance(Duration::from_secs(1)).await;
    listen(&*store, &tenant()).await;
    let ours = end_one(&*store, &tenant()).await;
    let take = async |limit| store.take_due(limit, 4, 5, HOLD).await.expect("the store answers");
    // The youngest of all has its turn, before anybody's second.
    let first = take(3).await;
    let tenants: HashSet<&Tenant> = first.iter().map(|due| &due.tenant).collect();
    assert_eq!((first.len(), tenants.len()), (3, 3), "{first:?}");
    assert!(first.iter().any(|due| due.job == ours));
    // Nobody holds more than that, whatever the receivers.
    let rest = take(100).await;
    for owner in &hanging {
        assert_eq!(rest.iter().filter(|due| due.tenant == *owner).count(), 4, "{rest:?}");
    }
    assert_eq!(rest.len(), 8);
    assert_eq!(take(100).await, []);
    end_one(&*store, &tenant()).await;
    assert_eq!(take(100).await.len(), 1);
    // Who has fewer held is next.
    let given_back = first.iter().find(|due| due.tenant == hanging[1]).expect("each has one");
    tell(&*store, given_back, Tried::Delivered { status: 200 }).await;
    end_one(&*store, &tenant()).await;
    assert_eq!(take(1).await[0].tenant, tenant());
    assert_eq!(take(100).await[0].tenant, hanging[1]);
}

/// A try for which something was lacking here is as if it had not been.
pub async fn a_postponed_try_does_not_count(harness: &impl StoreHarness) {
    let store = harness.store();
    let id = listen(&*store, &tenant()).await;
    let job = end_one(&*store, &tenant()).await;
    for _ in 0..2 * MAX_TRIES {
        let due = take_one(&*store).await;
        assert_eq!(due.number, 1);
        tell(&*store, &due, Tried::Postponed { after: Duration::from_secs(60) }).await;
        let waiting = only(&*store, job).await;
        assert_eq!((waiting.state, waiting.tries, waiting.last_error), (DeliveryState::Pending, 0, None));
        assert_eq!(take(&*store, 10, 10).await, []);
        harness.advance(Duration::from_secs(60)).await;
    }
    assert_eq!(endpoint(&*store, id).await.disabled, None);
    let due = take_one(&*store).await;
    tell(&*store, &due, Tried::Postponed { after: Duration::ZERO }).await;
    // A try is told once.
    let again = take_one(&*store).await;
    tell(&*store, &again, refused()).await;
    let waiting = only(&*store, job).await;
    tell(&*store, &due, Tried::Postponed { after: Duration::ZERO }).await;
    tell(&*store, &due, Tried::Gone { status: 410 }).await;
    assert_eq!(only(&*store, job).await, waiting);
    assert_eq!(endpoint(&*store, id).await.disabled, None);
}

/// A delivery that ends each of its couriers is given up as well, and its endpoint is not blamed.
pub async fn tries_of_which_nothing_is_heard_come_to_an_end(harness: &impl StoreHarness) {
    let store = harness.store();
    let id = listen(&*store, &tenant()).await;
    let job = end_one(&*store, &tenant()).await;
    for number in 1..=MAX_TRIES {
        assert_eq!(take_one(&*store).await.number, number);
        harness.advance(HOLD).await;
    }
    assert_eq!(take(&*store, 10, 10).await, []);
    let dead = only(&*store, job).await;
    assert_eq!((dead.state, dead.tries, dead.next_try_at), (DeliveryState::Dead, MAX_TRIES, None));
    assert_eq!(dead.last_error.as_deref(), Some(reasons::NEVER_ANSWERED));
    assert_eq!(endpoint(&*store, id).await.disabled, None);
    store.replay(&tenant(), dead.id).await.expect("the store answers").expect("it is there");
    assert_eq!(take_one(&*store).await.number, 1);
}

/// The last failure gives a delivery up. An endpoint that nothing has reached meanwhile is disabled, and only then.
pub async fn an_endpoint_that_nothing_reaches_is_disabled(harness: &impl StoreHarness) {
    let store = harness.store();
    let id = listen(&*store, &tenant()).await;
    let first = end_one(&*store, &tenant()).await;
    give_up(harness, first).await;
    let disabled = endpoint(&*store, id).await.disabled.expect("nothing has reached it").1;
    assert!(disabled.contains("as often as it is tried"), "{disabled}");

    let id = listen(&*store, &tenant()).await;
    let second = end_one(&*store, &tenant()).await;
    let reached = store.test_endpoint(&tenant(), id, Notice::Completed).await.expect("the store answers");
    let reached = reached.expect("it is there");
    for due in take(&*store, 10, 10).await {
        let tried = if due.id == reached.id { Tried::Delivered { status: 200 } } else { refused() };
        tell(&*store, &due, tried).await;
    }
    for _ in 1..MAX_TRIES {
        harness.advance(DAYS).await;
        tell(&*store, &take_one(&*store).await, refused()).await;
    }
    assert_eq!(only(&*store, second).await.state, DeliveryState::Dead);
    assert_eq!(endpoint(&*store, id).await.disabled, None);
}

/// Who says that it is gone is believed at once.
pub async fn an_endpoint_that_is_gone_is_disabled(harness: &impl StoreHarness) {
    let store = harness.store();
    let id = listen(&*store, &tenant()).await;
    let job = end_one(&*store, &tenant()).await;
    tell(&*store, &take_one(&*store).await, Tried::Gone { status: 410 }).await;
    let delivery = only(&*store, job).await;
    assert_eq!((delivery.state, delivery.last_status), (DeliveryState::Dead, Some(410)));
    assert!(endpoint(&*store, id).await.disabled.is_some());
    // The URL of a job is nobody's endpoint: only its own delivery ends.
    let hooked = end_hooked(&*store, &named("other"), &Notice::ALL).await;
    let due = take_one(&*store).await;
    assert_eq!(due.job, hooked);
    tell(&*store, &due, Tried::Gone { status: 410 }).await;
    let told = store.deliveries_of(&named("other"), hooked).await.expect("the store answers");
    assert_eq!(told.iter().map(|delivery| delivery.state).collect::<Vec<_>>(), [DeliveryState::Dead]);
}

/// Of one receiver only so many are held at once, however many takers there are: a slow one holds up nobody else.
pub async fn a_receiver_is_given_only_so_many_at_once(harness: &impl StoreHarness) {
    let store = harness.store();
    let slow = listen(&*store, &tenant()).await;
    for _ in 0..6 {
        end_one(&*store, &tenant()).await;
    }
    listen(&*store, &named("other")).await;
    harness.advance(Duration::from_secs(1)).await;
    let other = end_one(&*store, &named("other")).await;
    let mut taking = JoinSet::new();
    for _ in 0..6 {
        let store = Arc::clone(&store);
        taking.spawn(async move { take(&*store, 3, 2).await });
    }
    let taken: Vec<Due> = taking.join_all().await.into_iter().flatten().collect();
    let ids: HashSet<DeliveryId> = taken.iter().map(|due| due.id).collect();
    assert_eq!((taken.len(), ids.len()), (3, 3), "{taken:?}");
    assert_eq!(taken.iter().filter(|due| due.job == other).count(), 1);
    let ours = taken.iter().find(|due| due.job != other).expect("two are ours");
    tell(&*store, ours, Tried::Delivered { status: 200 }).await;
    assert_eq!(take(&*store, 10, 2).await.len(), 1);
    assert_eq!(take(&*store, 10, 2).await, []);
    harness.advance(HOLD).await;
    // Those that were held go on, with the others of their receiver behind them.
    assert_eq!(take(&*store, 10, 3).await.iter().filter(|due| due.tenant == tenant()).count(), 3);
    let pending =
        DeliveryQuery { endpoint: Some(slow), state: Some(DeliveryState::Pending), ..DeliveryQuery::default() };
    assert_eq!(page(&*store, &tenant(), pending).await.len(), 5);
}

/// Of each tenant the oldest comes first, and of those the oldest, and no more than were asked for.
pub async fn deliveries_are_taken_in_their_order(harness: &impl StoreHarness) {
    let store = harness.store();
    listen(&*store, &tenant()).await;
    listen(&*store, &named("other")).await;
    let mut jobs = Vec::new();
    for owner in [tenant(), named("other"), tenant(), named("other")] {
        jobs.push(end_one(&*store, &owner).await);
        harness.advance(Duration::from_secs(1)).await;
    }
    jobs.push(end_hooked(&*store, &named("hooked"), &Notice::ALL).await);
    let taken = async |limit| take(&*store, limit, 10).await.into_iter().map(|due| due.job).collect::<Vec<_>>();
    assert_eq!(taken(0).await, []);
    assert_eq!(taken(3).await, [jobs[0], jobs[1], jobs[4]]);
    assert_eq!(taken(3).await, jobs[2..4]);
    assert_eq!(taken(3).await, []);
}

/// A job's own URL hears of its end beside the endpoints, of what it asked for, signed by the secret of its tenant.
pub async fn the_url_of_a_job_hears_of_its_end(harness: &impl StoreHarness) {
    let store = harness.store();
    let job = end_hooked(&*store, &tenant(), &[Notice::Failed]).await;
    let delivery = only(&*store, job).await;
    assert_eq!(delivery.receiver, Receiver::Job { url: format!("{URL}/job") });
    let due = take_one(&*store).await;
    let secret = store.hook_secret(&tenant(), &Secret::random()).await.expect("the store answers");
    assert_eq!((due.url.as_str(), &due.secrets[..]), (&*format!("{URL}/job"), &[secret][..]));
    tell(&*store, &due, Tried::Delivered { status: 200 }).await;
    let unasked = end_hooked(&*store, &tenant(), &[Notice::Completed]).await;
    assert_eq!(store.deliveries_of(&tenant(), unasked).await.expect("the store answers"), []);

    listen(&*store, &tenant()).await;
    let both = end_hooked(&*store, &tenant(), &Notice::ALL).await;
    assert_eq!(store.deliveries_of(&tenant(), both).await.expect("the store answers").len(), 2);
    // All of a tenant's single jobs are one receiver, apart from its endpoints.
    end_hooked(&*store, &tenant(), &Notice::ALL).await;
    assert_eq!(take(&*store, 10, 1).await.len(), 2);
    // A job that is gone is told of all the same.
    store.delete(&tenant(), both).await.expect("the store answers");
    assert_eq!(store.deliveries_of(&tenant(), both).await.expect("the store answers").len(), 2);
}

/// A tenant sees its own, newest first, page by page, of one endpoint or in one state.
pub async fn deliveries_are_listed_page_by_page(harness: &impl StoreHarness) {
    let store = harness.store();
    let endpoints = [listen(&*store, &tenant()).await, listen(&*store, &tenant()).await];
    for round in 0..3 {
        end_one(&*store, &tenant()).await;
        if round == 0 {
            harness.advance(Duration::from_secs(1)).await;
        }
    }
    listen(&*store, &named("other")).await;
    let foreign = end_one(&*store, &named("other")).await;
    let all = page(&*store, &tenant(), DeliveryQuery::default()).await;
    assert_eq!(all.len(), 6);
    assert!(all.is_sorted_by(|a, b| (a.created_at, a.id) > (b.created_at, b.id)), "{all:?}");
    let (mut pages, mut after) = (Vec::new(), None);
    loop {
        let query = DeliveryQuery { after, limit: 4, ..DeliveryQuery::default() };
        let page = store.deliveries(&tenant(), &query).await.expect("the store answers");
        after = page.deliveries.last().map(|delivery| delivery.id);
        pages.extend(page.deliveries);
        if !page.has_more {
            break;
        }
    }
    assert_eq!(pages, all);
    let of_one = DeliveryQuery { endpoint: Some(endpoints[1]), ..DeliveryQuery::default() };
    let of_one = page(&*store, &tenant(), of_one).await;
    assert_eq!(of_one.len(), 3);
    assert!(of_one.iter().all(|delivery| delivery.receiver == Receiver::Endpoint(endpoints[1])));
    let due = take(&*store, 1, 1).await.remove(0);
    tell(&*store, &due, Tried::Delivered { status: 200 }).await;
    let delivered = DeliveryQuery { state: Some(DeliveryState::Delivered), ..DeliveryQuery::default() };
    let ids: Vec<DeliveryId> = page(&*store, &tenant(), delivered).await.iter().map(|delivery| delivery.id).collect();
    assert_eq!(ids, [due.id]);
    let foreign = store.deliveries_of(&named("other"), foreign).await.expect("the store answers")[0].id;
    let query = DeliveryQuery { after: Some(foreign), ..DeliveryQuery::default() };
    let refused = store.deliveries(&tenant(), &query).await;
    assert!(matches!(refused, Err(StoreError::UnknownDelivery { after }) if after == foreign), "{refused:?}");
}

/// What was told of one job comes in the order of its ends and, within one end, of the ids, as in the list of all but the other way
/// round, whichever endpoints there are.
pub async fn the_deliveries_of_a_job_come_in_the_order_of_its_ends(harness: &impl StoreHarness) {
    let store = harness.store();
    for _ in 0..8 {
        listen(&*store, &tenant()).await;
    }
    let job = create(&*store).await.id;
    let lease = claim(&*store, job).await.lease;
    store.finish(&lease, Outcome::Failed(failed("broken"))).await.expect("the lease holds");
    harness.advance(Duration::from_secs(1)).await;
    store.retry(&tenant(), job).await.expect("the store answers");
    store.cancel(&tenant(), job).await.expect("the store answers");
    let told = store.deliveries_of(&tenant(), job).await.expect("the store answers");
    assert_eq!(told.len(), 16);
    assert!(told[7].created_at < told[8].created_at, "{told:?}");
    assert!(told.is_sorted_by(|a, b| (a.created_at, a.id) < (b.created_at, b.id)), "{told:?}");
    let mut listed = page(&*store, &tenant(), DeliveryQuery::default()).await;
    listed.reverse();
    assert_eq!(told, listed);
}

/// What is over is forgotten as the policy says, and what is not stays.
pub async fn settled_deliveries_are_forgotten(harness: &impl StoreHarness) {
    let life = Duration::from_secs(5_000);
    let store = harness.store_with(Policy { record_life: Some(life), ..Policy::default() }).await;
    listen(&*store, &tenant()).await;
    for _ in 0..4 {
        end_one(&*store, &tenant()).await;
    }
    for due in take(&*store, 3, 10).await {
        tell(&*store, &due, Tried::Delivered { status: 200 }).await;
    }
    let forget = async |store: &dyn Store, limit| store.forget_deliveries(limit).await.expect("the store answers");
    harness.advance(life - Duration::from_secs(10)).await;
    assert_eq!(forget(&*store, 100).await, 0);
    harness.advance(Duration::from_secs(10)).await;
    assert_eq!(forget(&*harness.store(), 100).await, 0);
    assert_eq!((forget(&*store, 2).await, forget(&*store, 2).await, forget(&*store, 2).await), (2, 1, 0));
    let left = page(&*store, &tenant(), DeliveryQuery::default()).await;
    assert_eq!(left.iter().map(|delivery| delivery.state).collect::<Vec<_>>(), [DeliveryState::Pending]);
    assert_eq!(store.next_delivery(Micros(0)).await.expect("the store answers"), left[0].next_try_at);
}
