//! What the courier tells receivers, and what it never sends anywhere.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use clapboard_jobs::{
    Delivery, DeliveryQuery, DeliveryState, Endpoint, JobHook, MAX_TRIES, NewJob, Notice, Policy, Secret, Tenant,
};
use clapboard_outbound::fixtures::RecordedNet;
use clapboard_outbound::{Client, Rules, Tls};
use clapboard_scheduler::{Courier, Options, Retention, Sweep};
use serde_json::json;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::house::House;
use crate::receivers::{Does, Got, LONG, PUBLIC, Receivers, answer, hasty, run, says};

#[tokio::test]
async fn a_receiver_is_told_once_what_happened_signed_and_dated() {
    let house = House::new().await;
    let receivers = Receivers::start(&[("a.example", &[PUBLIC])], |_| says(204, "")).await;
    let endpoint = house.endpoint("http://a.example/hook?x=1").await;
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let new = NewJob { trace: Some(trace.parse().unwrap()), ..house.new_job() };
    let job = house.store.create(new).await.unwrap();
    house.complete_one().await;
    let (shutdown, running) = run(receivers.courier(Arc::clone(&house.store), &hasty()));
    let delivery = house.tried_once().await;
    assert_eq!((delivery.state, delivery.last_status), (DeliveryState::Delivered, Some(204)));
    shutdown.cancel();
    running.await.unwrap();

    let got = receivers.got();
    assert_eq!(got.len(), 1);
    assert!(got[0].head.starts_with("POST /hook?x=1 HTTP/1.1\r\n"), "{}", got[0].head);
    assert_eq!(got[0].header("webhook-id"), Some(delivery.id.to_string().as_str()));
    assert_eq!(got[0].header("traceparent"), Some(trace));
    assert_eq!(got[0].header("content-type"), Some("application/json"));
    assert_eq!((got[0].signatures_by(&endpoint.secret), got[0].signatures_by(&Secret::random())), (1, 0));
    let timestamp: u64 = got[0].header("webhook-timestamp").unwrap().parse().unwrap();
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs();
    assert!(now.abs_diff(timestamp) < 60, "{timestamp}");
    let expected = json!({
        "id": delivery.id.to_string(), "object": "event", "created_at": delivery.created_at.unix_seconds(),
        "type": "video.completed", "data": {"id": job.id.to_string(), "object": "video"},
    });
    assert_eq!(got[0].json(), expected);
}

#[tokio::test]
async fn the_url_of_a_single_job_is_told_what_it_asked_for_signed_by_its_tenants_secret() {
    let house = House::new().await;
    let receivers = Receivers::start(&[("a.example", &[PUBLIC])], |_| says(200, "")).await;
    let secret = house.store.hook_secret(&house.tenant, &Secret::random()).await.unwrap();
    let hook = |notices: &[Notice]| Some(JobHook { url: "http://a.example/x".to_owned(), notices: notices.to_vec() });
    let unheard = house.store.create(NewJob { hook: hook(&[Notice::Failed]), ..house.new_job() }).await.unwrap();
    house.complete_one().await;
    let heard = house.store.create(NewJob { hook: hook(&Notice::ALL), ..house.new_job() }).await.unwrap();
    house.store.cancel(&house.tenant, heard.id).await.unwrap();
    let (shutdown, running) = run(receivers.courier(Arc::clone(&house.store), &hasty()));
    house.tried_once().await;
    shutdown.cancel();
    running.await.unwrap();
    let got = receivers.got();
    assert_eq!((got.len(), got[0].signatures_by(&secret)), (1, 1));
    let event = got[0].json();
    assert_eq!((&event["type"], &event["data"]["id"]), (&json!("video.failed"), &json!(heard.id.to_string())));
    assert_eq!(house.store.deliveries_of(&house.tenant, unheard.id).await.unwrap(), []);
}

#[tokio::test]
async fn an_old_secret_signs_beside_the_new_one_for_as_long_as_was_asked() {
    let house = House::new().await;
    let receivers = Receivers::start(&[("a.example", &[PUBLIC])], |_| says(200, "")).await;
    let old = house.endpoint("http://a.example/").await;
    let (new, day) = (Secret::random(), Duration::from_secs(24 * 3600));
    house.store.rotate_secret(&house.tenant, old.id, &new, Some(day)).await.unwrap().unwrap();
    let (shutdown, running) = run(receivers.courier(Arc::clone(&house.store), &hasty()));
    for (told, by_old) in [(1, 1), (2, 0)] {
        // How the one before went may not be written down yet, and until then there is no other.
        let asked = async || house.store.test_endpoint(&house.tenant, old.id, Notice::Completed).await.ok().flatten();
        house.until(asked).await;
        house.until(async || (receivers.got().len() == told).then_some(())).await;
        let got = receivers.got().pop().unwrap();
        assert_eq!((got.signatures_by(&new), got.signatures_by(&old.secret)), (1, by_old));
        house.clock.advance(day);
    }
    shutdown.cancel();
    running.await.unwrap();
}

#[tokio::test]
async fn a_receiver_that_fails_ten_times_is_given_up_and_disabled_and_can_be_told_again() {
    let house = House::new().await;
    let mends = Arc::new(Mutex::new(500));
    let status = Arc::clone(&mends);
    let receivers = Receivers::start(&[("a.example", &[PUBLIC])], move |_| says(*status.lock().unwrap(), "")).await;
    let endpoint = house.endpoint("http://a.example/").await;
    house.submit().await;
    house.complete_one().await;
    for tries in 1..=MAX_TRIES {
        let delivery = house.try_again(&receivers).await;
        assert_eq!((delivery.tries, delivery.last_status), (tries, Some(500)));
        assert_eq!(delivery.last_error.as_deref(), Some("the receiver answered with status 500"));
        let dead = tries == MAX_TRIES;
        assert_eq!(delivery.state, if dead { DeliveryState::Dead } else { DeliveryState::Pending }, "{tries}");
        assert_eq!(house.why_disabled(endpoint.id).await.is_some(), dead);
        house.clock.advance(Duration::from_secs(30 * 3600));
    }
    let got = receivers.got();
    assert_eq!(got.len(), MAX_TRIES as usize);
    let ids: Vec<_> = got.iter().map(|got| got.header("webhook-id")).collect();
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    assert!(got.iter().all(|got| got.signatures_by(&endpoint.secret) == 1));

    *mends.lock().unwrap() = 200;
    let enabled = clapboard_jobs::EndpointChange { enabled: Some(true), ..Default::default() };
    house.store.change_endpoint(&house.tenant, endpoint.id, &enabled).await.unwrap().unwrap();
    let id = house.deliveries().await[0].id;
    house.store.replay(&house.tenant, id).await.unwrap().unwrap();
    assert_eq!(house.try_again(&receivers).await.state, DeliveryState::Delivered);
    assert_eq!(receivers.got().last().unwrap().header("webhook-id"), ids[0]);
}

#[tokio::test]
async fn a_receiver_that_is_gone_hears_nothing_more() {
    let house = House::new().await;
    let receivers = Receivers::start(&[("a.example", &[PUBLIC])], |_| says(410, "")).await;
    let endpoint = house.endpoint("http://a.example/").await;
    let (shutdown, running) = run(receivers.courier(Arc::clone(&house.store), &hasty()));
    house.submit().await;
    house.complete_one().await;
    house.until(async || house.why_disabled(endpoint.id).await).await;
    let delivery = house.deliveries().await.pop().unwrap();
    assert_eq!((delivery.state, delivery.last_status, delivery.tries), (DeliveryState::Dead, Some(410), 1));
    house.submit().await;
    house.complete_one().await;
    assert_eq!(house.deliveries().await.len(), 1);
    shutdown.cancel();
    running.await.unwrap();
}

#[tokio::test]
async fn a_receiver_is_left_alone_with_all_that_waits_for_it_for_as_long_as_it_asks() {
    const BACKLOG: usize = 12;
    const AT_ONCE: usize = 2;
    let house = House::new().await;
    let asks = Arc::new(AtomicBool::new(true));
    let still_asks = Arc::clone(&asks);
    let names: [(_, &[&str]); 2] = [("busy.example", &[PUBLIC]), ("quick.example", &[PUBLIC])];
    let receivers = Receivers::start(&names, move |got| match got.host() {
        "busy.example" if still_asks.load(Ordering::SeqCst) => says(429, "retry-after: 3600\r\n"),
        _ => says(200, ""),
    })
    .await;
    house.endpoint("http://busy.example/").await;
    for _ in 0..BACKLOG {
        house.end_one(&house.tenant).await;
    }
    let options = Options { webhook_concurrency_per_receiver: AT_ONCE as u32, ..hasty() };
    let (shutdown, running) = run(receivers.courier(Arc::clone(&house.store), &options));
    let got_by = |host| receivers.got().iter().filter(|got| got.host() == host).count();
    let asked = house.until(async || house.deliveries().await.into_iter().find(|one| one.last_error.is_some())).await;
    let wait = asked.next_try_at.unwrap().since(house.store.now().await.unwrap());
    assert!(wait > Duration::from_secs(3500), "{wait:?}");
    // The courier goes on meanwhile, and not with that receiver.
    house.endpoint("http://quick.example/").await;
    for told in 1..=3 {
        house.end_one(&house.tenant).await;
        house.until(async || (got_by("quick.example") == told).then_some(())).await;
    }
    let first = got_by("busy.example");
    assert!((1..=AT_ONCE).contains(&first), "{first} were sent to a receiver that had asked to be left alone");

    asks.store(false, Ordering::SeqCst);
    house.clock.advance(Duration::from_secs(2 * 3600));
    let is_told = |delivery: &Delivery| delivery.state == DeliveryState::Delivered;
    house.until(async || house.deliveries().await.iter().all(is_told).then_some(())).await;
    assert_eq!(got_by("busy.example"), first + BACKLOG + 3);
    shutdown.cancel();
    running.await.unwrap();
}

#[tokio::test]
async fn a_redirect_is_a_failure_and_nothing_is_sent_where_it_leads() {
    let house = House::new().await;
    let receivers =
        Receivers::start(&[("a.example", &[PUBLIC])], |_| says(307, "location: http://169.254.169.254/\r\n")).await;
    house.endpoint("http://a.example/").await;
    house.submit().await;
    house.complete_one().await;
    let (shutdown, running) = run(receivers.courier(Arc::clone(&house.store), &hasty()));
    let delivery = house.tried_once().await;
    let expected = "the receiver answered with a redirect, status 307, which is not followed";
    assert_eq!((delivery.last_status, delivery.last_error.as_deref()), (Some(307), Some(expected)));
    shutdown.cancel();
    running.await.unwrap();
    assert_eq!(receivers.net.log(), ["resolve a.example".to_owned(), format!("connect {PUBLIC}:80")]);
}

#[tokio::test]
async fn receivers_that_hang_or_drip_delay_nobody_else_and_are_given_up_in_time() {
    let house = House::new().await;
    let receivers = Receivers::start(
        &[("slow.example", &[PUBLIC]), ("drip.example", &[PUBLIC]), ("quick.example", &[PUBLIC])],
        |got| match got.host() {
            "slow.example" => Does::Hangs,
            "drip.example" => Does::Drips,
            _ => says(200, ""),
        },
    )
    .await;
    let mut endpoints = Vec::new();
    for host in ["slow", "drip", "quick"] {
        endpoints.push(house.endpoint(&format!("http://{host}.example/")).await.id);
    }
    house.submit().await;
    house.complete_one().await;
    let options = Options { webhook_timeout: Duration::from_secs(2), ..hasty() };
    let (shutdown, running) = run(receivers.courier(Arc::clone(&house.store), &options));
    let of = async |endpoint| {
        let query = DeliveryQuery { endpoint: Some(endpoint), ..DeliveryQuery::default() };
        house.store.deliveries(&house.tenant, &query).await.unwrap().deliveries.pop().unwrap()
    };
    house.until(async || (of(endpoints[2]).await.state == DeliveryState::Delivered).then_some(())).await;
    assert_eq!(of(endpoints[0]).await.last_error, None, "the quick one waited for the slow one");
    for endpoint in &endpoints[..2] {
        let why = house.until(async || of(*endpoint).await.last_error).await;
        assert_eq!(why, "no answer came within 2s");
    }
    shutdown.cancel();
    running.await.unwrap();
}

#[tokio::test]
async fn one_receiver_has_only_so_many_at_once_and_holds_up_no_end() {
    const JOBS: usize = 4;
    let house = House::new().await;
    let receivers =
        Receivers::start(&[("slow.example", &[PUBLIC]), ("quick.example", &[PUBLIC])], |got| match got.host() {
            "slow.example" => Does::Hangs,
            _ => says(200, ""),
        })
        .await;
    house.endpoint("http://slow.example/").await;
    house.endpoint("http://quick.example/").await;
    for _ in 0..JOBS {
        house.submit().await;
        house.complete_one().await;
    }
    let options = Options { webhook_concurrency_per_receiver: 2, ..hasty() };
    let (shutdown, running) = run(receivers.courier(Arc::clone(&house.store), &options));
    let got_by = |host| receivers.got().iter().filter(|got| got.host() == host).count();
    house.until(async || (got_by("quick.example") == JOBS && got_by("slow.example") == 2).then_some(())).await;
    let began = Instant::now();
    shutdown.cancel();
    running.await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(10), "a receiver that hangs held up the end");
    assert_eq!(got_by("slow.example"), 2);
}

/// Two tenants with more deliveries to receivers that hang than there are places, all of them older than the third's.
#[tokio::test]
async fn tenants_whose_receivers_hang_delay_no_other_tenant() {
    const PLACES: u32 = 12;
    const PER_TENANT: u32 = 4;
    let house = House::new().await;
    let names: [(_, &[&str]); 2] = [("slow.example", &[PUBLIC]), ("quick.example", &[PUBLIC])];
    let receivers = Receivers::start(&names, |got| match got.host() {
        "slow.example" => Does::Hangs,
        _ => says(200, ""),
    })
    .await;
    for name in ["slow-a", "slow-b"] {
        let tenant: Tenant = name.parse().unwrap();
        for _ in 0..PLACES {
            let endpoint = Endpoint::new(tenant.clone(), "http://slow.example/");
            house.store.add_endpoint(&endpoint).await.unwrap();
        }
        for _ in 0..3 {
            house.end_one(&tenant).await;
        }
    }
    house.endpoint("http://quick.example/").await;
    let options = Options {
        webhook_timeout: 10 * LONG,
        webhook_concurrency: PLACES,
        webhook_concurrency_per_tenant: PER_TENANT,
        webhook_concurrency_per_receiver: 2,
        ..hasty()
    };
    let (shutdown, running) = run(receivers.courier(Arc::clone(&house.store), &options));
    let got_by = |host| receivers.got().iter().filter(|got| got.host() == host).count();
    house.until(async || (got_by("slow.example") == 2 * PER_TENANT as usize).then_some(())).await;
    for told in 1..=5 {
        house.end_one(&house.tenant).await;
        house.until(async || (got_by("quick.example") == told).then_some(())).await;
    }
    assert_eq!(got_by("slow.example"), 2 * PER_TENANT as usize);
    shutdown.cancel();
    running.await.unwrap();
}

#[tokio::test]
async fn an_answer_without_end_is_an_answer() {
    let house = House::new().await;
    let receivers = Receivers::start(&[("a.example", &[PUBLIC])], |_| Does::GoesOn).await;
    house.endpoint("http://a.example/").await;
    house.submit().await;
    house.complete_one().await;
    let (shutdown, running) = run(receivers.courier(Arc::clone(&house.store), &hasty()));
    assert_eq!(house.tried_once().await.state, DeliveryState::Delivered);
    shutdown.cancel();
    running.await.unwrap();
}

#[tokio::test]
async fn a_receiver_that_refuses_is_told_of_in_words_for_its_owner() {
    let house = House::new().await;
    let closed = {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        listener.local_addr().unwrap()
    };
    let net = Arc::new(RecordedNet::new(&[("a.example", &[PUBLIC])], closed));
    let courier =
        Courier::over(Arc::clone(&house.store), Client::over(net, Tls::default(), Rules::default()), &hasty());
    house.endpoint("http://a.example/?token=hunter2").await;
    house.submit().await;
    house.complete_one().await;
    let (shutdown, running) = run(courier);
    let delivery = house.tried_once().await;
    assert_eq!(delivery.last_status, None);
    assert_eq!(delivery.last_error.as_deref(), Some("the host could not be reached"));
    shutdown.cancel();
    running.await.unwrap();
}

#[tokio::test]
async fn nothing_is_sent_where_no_request_may_go() {
    let closed = "the host is not on the public internet";
    for (url, why) in [
        ("https://169.254.169.254/latest", closed),
        ("https://[::1]/", closed),
        ("https://[::ffff:169.254.169.254]/", closed),
        ("https://2130706433/", closed),
        ("https://0177.0.0.1/", closed),
        ("https://inside.example/", closed),
        ("https://mixed.example/", closed),
        ("https://a.example:22/", "the port must be 80, 443 or at least 1024, got 22"),
        ("http://a.example/", "the scheme must be https"),
        ("https://me:secret@a.example/", "the URL must not hold a user name or password"),
        ("nonsense", "its URL is none"),
    ] {
        let house = House::new().await;
        let names: [(_, &[&str]); 3] =
            [("a.example", &[PUBLIC]), ("inside.example", &["10.0.0.1"]), ("mixed.example", &[PUBLIC, "::1"])];
        let receivers = Receivers::start(&names, |_| says(200, "")).await;
        house.endpoint(url).await;
        house.submit().await;
        house.complete_one().await;
        let rules = Rules::default().https_only();
        let (shutdown, running) = run(receivers.courier_by(rules, Arc::clone(&house.store), &hasty()));
        assert_eq!(house.tried_once().await.last_error.as_deref(), Some(why), "{url}");
        assert!(!receivers.net.connected(), "{url}");
        shutdown.cancel();
        running.await.unwrap();
    }
}

#[tokio::test]
async fn a_name_that_changes_its_address_between_tries_is_looked_at_again() {
    let house = House::new().await;
    let names: [(_, &[&str]); 2] = [("a.example", &[PUBLIC]), ("a.example", &["127.0.0.1"])];
    let receivers = Receivers::start(&names, |_| says(500, "")).await;
    house.endpoint("http://a.example/").await;
    house.submit().await;
    house.complete_one().await;
    assert_eq!(house.try_again(&receivers).await.last_status, Some(500));
    house.clock.advance(Duration::from_secs(60));
    let delivery = house.try_again(&receivers).await;
    assert_eq!(delivery.last_error.as_deref(), Some("the host is not on the public internet"));
    assert_eq!(receivers.got().len(), 1);
}

#[tokio::test]
async fn a_home_receiver_is_told_by_http_where_the_operator_names_it() {
    let house = House::new().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (log, act) = (Arc::new(Mutex::new(Vec::new())), Arc::new(|_: &Got| says(200, "")));
    let got = Arc::clone(&log);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream, Arc::clone(&log), Arc::clone(&act)));
        }
    });
    house.endpoint(&format!("http://127.0.0.1:{port}/")).await;
    house.submit().await;
    house.complete_one().await;
    let options = Options { allow_http_webhook_hosts: vec!["127.0.0.1".parse().unwrap()], ..hasty() };
    let shutdown = CancellationToken::new();
    let running = house.schedule(Arc::clone(&house.store), options, &shutdown);
    assert_eq!(house.tried_once().await.state, DeliveryState::Delivered);
    assert_eq!(got.lock().unwrap().len(), 1);
    shutdown.cancel();
    running.await.unwrap();
}

#[tokio::test]
async fn two_couriers_side_by_side_tell_everything_once() {
    const JOBS: usize = 12;
    let house = House::new().await;
    let receivers = Receivers::start(&[("a.example", &[PUBLIC])], |_| says(200, "")).await;
    house.endpoint("http://a.example/").await;
    let running = [(); 2].map(|()| run(receivers.courier(Arc::clone(&house.store), &hasty())));
    for _ in 0..JOBS {
        house.submit().await;
        house.complete_one().await;
    }
    house
        .until(async || {
            let deliveries = house.deliveries().await;
            deliveries.iter().all(|delivery| delivery.state == DeliveryState::Delivered).then_some(())
        })
        .await;
    assert_eq!(receivers.got().len(), JOBS);
    for (shutdown, running) in running {
        shutdown.cancel();
        running.await.unwrap();
    }
}

#[tokio::test]
async fn what_was_told_is_forgotten_when_it_was_kept_long_enough() {
    let life = Duration::from_secs(3600);
    let house = House::under(Policy { record_life: Some(life), ..Policy::default() }).await;
    let receivers = Receivers::start(&[("a.example", &[PUBLIC])], |_| says(200, "")).await;
    house.endpoint("http://a.example/").await;
    house.submit().await;
    house.complete_one().await;
    let (shutdown, running) = run(receivers.courier(Arc::clone(&house.store), &hasty()));
    house.tried_once().await;
    shutdown.cancel();
    running.await.unwrap();
    let retention = Retention::new(Arc::clone(&house.store), &Options::default());
    retention.sweep_once().await.unwrap();
    assert_eq!(house.deliveries().await.len(), 1);
    house.clock.advance(life + Duration::from_secs(1));
    retention.sweep_once().await.unwrap();
    assert_eq!(house.deliveries().await.len(), 0);
}
