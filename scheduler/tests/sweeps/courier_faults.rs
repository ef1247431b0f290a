//! What becomes of webhooks when something fails on this side: the store, the network, or the courier itself.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use clapboard_jobs::fixtures::FaultyStore;
use clapboard_jobs::{Delivery, DeliveryState, MAX_TRIES, Notice, Store};
use clapboard_outbound::fixtures::RecordedNet;
use clapboard_outbound::{Client, Net, Rules, Tls};
use clapboard_scheduler::Courier;
use tokio::net::TcpStream;

use crate::house::House;
use crate::receivers::{Does, LONG, PUBLIC, Receivers, hasty, run, says};

/// What becomes of a name.
enum Lookup {
    /// Nobody can be asked.
    Away,
    /// Whoever asks panics.
    Panics,
}

/// A network whose resolver has a fault for a number of times.
struct FaultyNet {
    inner: Arc<RecordedNet>,
    lookup: Lookup,
    left: AtomicU32,
    asked: AtomicU32,
}

impl FaultyNet {
    fn over(receivers: &Receivers, lookup: Lookup, times: u32) -> Arc<Self> {
        let (left, asked) = (AtomicU32::new(times), AtomicU32::new(0));
        Arc::new(Self { inner: Arc::clone(&receivers.net), lookup, left, asked })
    }

    fn courier(self: &Arc<Self>, store: &Arc<dyn Store>) -> Courier {
        let client = Client::over(Arc::clone(self) as _, Tls::default(), Rules::default());
        Courier::over(Arc::clone(store), client, &hasty())
    }
}

#[async_trait]
impl Net for FaultyNet {
    async fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let is_faulty = self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok();
        match self.lookup {
            Lookup::Away if is_faulty => Err(io::Error::other("Temporary failure in name resolution")),
            Lookup::Panics if is_faulty => panic!("as the test says"),
            _ => self.inner.resolve(host, port).await,
        }
    }

    async fn connect(&self, addresses: &[SocketAddr]) -> io::Result<TcpStream> {
        self.inner.connect(addresses).await
    }
}

#[tokio::test]
async fn a_try_that_a_shutdown_cuts_off_does_not_count_and_is_made_again_at_once() {
    let house = House::new().await;
    let wakes = Arc::new(AtomicBool::new(false));
    let awake = Arc::clone(&wakes);
    let receivers = Receivers::start(&[("a.example", &[PUBLIC])], move |_| {
        if awake.load(Ordering::SeqCst) { says(200, "") } else { Does::Hangs }
    })
    .await;
    house.endpoint("http://a.example/").await;
    house.end_one(&house.tenant).await;
    for cut_off in 1..=MAX_TRIES as usize + 1 {
        let (shutdown, running) = run(receivers.courier(Arc::clone(&house.store), &hasty()));
        house.until(async || (receivers.got().len() == cut_off).then_some(())).await;
        shutdown.cancel();
        running.await.unwrap();
        let delivery = house.deliveries().await.pop().unwrap();
        assert_eq!((delivery.state, delivery.tries, delivery.last_error), (DeliveryState::Pending, 0, None));
    }
    wakes.store(true, Ordering::SeqCst);
    let (shutdown, running) = run(receivers.courier(Arc::clone(&house.store), &hasty()));
    assert_eq!(house.tried_once().await.state, DeliveryState::Delivered);
    shutdown.cancel();
    running.await.unwrap();
    let got = receivers.got();
    assert!(got.iter().all(|one| one.header("webhook-id") == got[0].header("webhook-id")));
}

#[tokio::test]
async fn a_fault_of_this_machine_counts_against_no_receiver() {
    const FAULTS: u32 = MAX_TRIES + 2;
    let house = House::new().await;
    let receivers = Receivers::start(&[("a.example", &[PUBLIC])], |_| says(200, "")).await;
    let net = FaultyNet::over(&receivers, Lookup::Away, FAULTS);
    let endpoint = house.endpoint("http://a.example/").await;
    house.end_one(&house.tenant).await;
    let store = Arc::new(FaultyStore::over(Arc::clone(&house.store)));
    let (shutdown, running) = run(net.courier(&(Arc::clone(&store) as _)));
    for fault in 1..=FAULTS {
        house.until(async || (store.trieds() == fault).then_some(())).await;
        let delivery = house.until(async || house.deliveries().await.pop().filter(|one| one.tries == 0)).await;
        assert_eq!(delivery.state, DeliveryState::Pending);
        assert_eq!(house.why_disabled(endpoint.id).await, None);
        house.clock.advance(Duration::from_secs(90));
    }
    house.until(async || (house.deliveries().await[0].state == DeliveryState::Delivered).then_some(())).await;
    assert_eq!(receivers.got().len(), 1);
    shutdown.cancel();
    running.await.unwrap();
}

/// Whoever tries an endpoint out hears what was wrong, and can try again.
#[tokio::test]
async fn a_sample_whose_name_cannot_be_looked_up_is_over_and_says_why() {
    let house = House::new().await;
    let receivers = Receivers::start(&[("a.example", &[PUBLIC])], |_| says(200, "")).await;
    let net = FaultyNet::over(&receivers, Lookup::Away, 1);
    let endpoint = house.endpoint("http://a.example/").await;
    let (shutdown, running) = run(net.courier(&house.store));
    for expected in [DeliveryState::Dead, DeliveryState::Delivered] {
        let sample = house.store.test_endpoint(&house.tenant, endpoint.id, Notice::Completed).await.unwrap().unwrap();
        let settled = house.until(async || {
            let mut told = house.store.deliveries_of(&house.tenant, sample.job).await.unwrap();
            told.pop().filter(|one| one.state != DeliveryState::Pending)
        });
        let settled = settled.await;
        assert_eq!((settled.state, settled.tries, settled.is_test), (expected, 1, true));
        let failed = expected == DeliveryState::Dead;
        assert_eq!(settled.last_error.as_deref(), failed.then_some("could not look up the name of a host"));
    }
    assert_eq!(house.why_disabled(endpoint.id).await, None);
    shutdown.cancel();
    running.await.unwrap();
}

#[tokio::test]
async fn a_sample_that_a_shutdown_cuts_off_is_over_and_says_why() {
    let house = House::new().await;
    let receivers = Receivers::start(&[("a.example", &[PUBLIC])], |_| Does::Hangs).await;
    let endpoint = house.endpoint("http://a.example/").await;
    let (shutdown, running) = run(receivers.courier(Arc::clone(&house.store), &hasty()));
    let sample = house.store.test_endpoint(&house.tenant, endpoint.id, Notice::Completed).await.unwrap().unwrap();
    house.until(async || (receivers.got().len() == 1).then_some(())).await;
    shutdown.cancel();
    running.await.unwrap();
    let told = house.store.deliveries_of(&house.tenant, sample.job).await.unwrap().pop().unwrap();
    assert_eq!((told.state, told.tries), (DeliveryState::Dead, 1));
    assert_eq!(told.last_error.as_deref(), Some("the service was stopped before an answer came"));
}

/// It may as well be the fault of whoever answers for that name.
#[tokio::test]
async fn a_name_that_nobody_can_look_up_for_days_counts_against_its_receiver() {
    let house = House::new().await;
    let receivers = Receivers::start(&[("a.example", &[PUBLIC])], |_| says(200, "")).await;
    let net = FaultyNet::over(&receivers, Lookup::Away, u32::MAX);
    house.endpoint("http://a.example/").await;
    house.end_one(&house.tenant).await;
    house.clock.advance(Duration::from_secs(4 * 24 * 3600));
    let (shutdown, running) = run(net.courier(&house.store));
    let delivery = house.tried_once().await;
    assert_eq!((delivery.tries, delivery.last_error.as_deref()), (1, Some("could not look up the name of a host")));
    shutdown.cancel();
    running.await.unwrap();
}

#[tokio::test]
async fn a_try_that_panics_ends_no_courier_and_is_made_again() {
    let house = House::new().await;
    let receivers = Receivers::start(&[("a.example", &[PUBLIC])], |_| says(200, "")).await;
    let net = FaultyNet::over(&receivers, Lookup::Panics, 1);
    house.endpoint("http://a.example/").await;
    house.end_one(&house.tenant).await;
    let (shutdown, running) = run(net.courier(&house.store));
    house.until(async || (net.asked.load(Ordering::SeqCst) == 1).then_some(())).await;
    // Others are told meanwhile.
    house.end_one(&house.tenant).await;
    house.until(async || (receivers.got().len() == 1).then_some(())).await;
    house.clock.advance(hasty().webhook_timeout + LONG);
    house.until(async || (receivers.got().len() == 2).then_some(())).await;
    shutdown.cancel();
    running.await.unwrap();
}

#[tokio::test]
async fn a_courier_that_panics_goes_on_after_a_rest() {
    let house = House::new().await;
    let store = Arc::new(FaultyStore::over(Arc::clone(&house.store)));
    store.panic_at_next_take();
    let receivers = Receivers::start(&[("a.example", &[PUBLIC])], |_| says(200, "")).await;
    house.endpoint("http://a.example/").await;
    house.end_one(&house.tenant).await;
    let (shutdown, running) = run(receivers.courier(Arc::clone(&store) as _, &hasty()));
    assert_eq!(house.tried_once().await.state, DeliveryState::Delivered);
    assert!(store.takes() > 1);
    shutdown.cancel();
    running.await.unwrap();
}

#[tokio::test]
async fn a_store_that_does_not_answer_holds_up_no_end() {
    let house = House::new().await;
    let store = Arc::new(FaultyStore::over(Arc::clone(&house.store)));
    store.hang_takes();
    let receivers = Receivers::start(&[("a.example", &[PUBLIC])], |_| says(200, "")).await;
    let (shutdown, running) = run(receivers.courier(Arc::clone(&store) as _, &hasty()));
    house.until(async || (store.takes() == 1).then_some(())).await;
    shutdown.cancel();
    tokio::time::timeout(LONG / 6, running).await.expect("the courier ends in time").unwrap();
}

#[tokio::test]
async fn a_store_that_cannot_be_told_how_a_try_went_is_told_again_and_the_receiver_is_not() {
    let house = House::new().await;
    let store = Arc::new(FaultyStore::over(Arc::clone(&house.store)));
    let receivers = Receivers::start(&[("a.example", &[PUBLIC])], |_| says(200, "")).await;
    house.endpoint("http://a.example/").await;
    let (shutdown, running) = run(receivers.courier(Arc::clone(&store) as _, &hasty()));
    // One report does not get through, and then the answer to one is lost.
    for (refused, lost, reports) in [(1, false, 2), (0, true, 4)] {
        store.refuse_trieds(refused);
        if lost {
            store.lose_next_tried();
        }
        house.end_one(&house.tenant).await;
        house.until(async || (store.trieds() == reports).then_some(())).await;
        let is_told = |delivery: &Delivery| delivery.state == DeliveryState::Delivered && delivery.tries == 1;
        house.until(async || house.deliveries().await.iter().all(is_told).then_some(())).await;
    }
    house.clock.advance(hasty().webhook_timeout + LONG);
    let looks = store.takes();
    house.until(async || (store.takes() > looks + 1).then_some(())).await;
    assert_eq!(receivers.got().len(), 2);
    shutdown.cancel();
    running.await.unwrap();
}

#[tokio::test]
async fn a_courier_outlasts_its_store() {
    let house = House::new().await;
    let store = Arc::new(FaultyStore::over(Arc::clone(&house.store)));
    let receivers = Receivers::start(&[("a.example", &[PUBLIC])], |_| says(200, "")).await;
    house.endpoint("http://a.example/").await;
    house.submit().await;
    house.complete_one().await;
    store.go_away();
    let (shutdown, running) = run(receivers.courier(Arc::clone(&store) as _, &hasty()));
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!running.is_finished() && receivers.got().is_empty());
    store.come_back();
    assert_eq!(house.tried_once().await.state, DeliveryState::Delivered);
    shutdown.cancel();
    tokio::time::timeout(LONG, running).await.unwrap().unwrap();
}
