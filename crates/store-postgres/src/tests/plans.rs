use clapboard_jobs::{
    DeliveryQuery, DeliveryState, Endpoint, EndpointChange, KeyHash, Keyring, ListQuery, Metadata, Notice, Order,
    Outbox, Progress, Secret, Status, StoreError, TenantLimits, Weight, WorkerCard, WorkerState,
};

use super::*;

/// Ends statements whose reads are not to be counted later, among those of others.
const COUNT_NOW: &str = "select pg_stat_force_next_flush()";
/// How long the backlog of the tenant that may run nothing is.
const BACKLOG: i64 = 100_000;

fn backlog(jobs: i64) -> String {
    format!(
        "insert into jobs (id, tenant, model, partition, capacity_class, rows, priority, spec_version, spec,
             cost_tflop, rank, virtual_finish, created_at, run_at, max_attempts)
         select gen_random_uuid(), 'capped', 'm', 'fl2va', n % 3, 1000, 'normal', 1, '{{}}', 1.0, n, n, n, n, 3
         from generate_series(1, {jobs}) n"
    )
}

/// A store with one connection, whose reads are counted, over a table with a long backlog of one tenant.
struct Counted {
    harness: Harness,
    store: PostgresStore,
}

/// What was read of `jobs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Reads {
    seq_scans: i64,
    index_entries: i64,
}

impl Counted {
    /// Plans are made over as many ended jobs as `history` says.
    async fn new(history: i64) -> Self {
        let harness = harness().await;
        let limits = TenantLimits { max_running: Some(0), ..TenantLimits::default() };
        harness.store.set_tenant(&"capped".parse().unwrap(), &limits).await.unwrap();
        harness.store.create(NewJob { tenant: "capped".parse().unwrap(), ..new_job() }).await.unwrap();
        let store =
            PostgresStore::connect(&Options { max_connections: 1, ..harness.options.clone() }, Policy::default())
                .await
                .unwrap();
        if history > 0 {
            // The planner is told that next to none of many jobs wait.
            harness.meddle(&backlog(history)).await;
            let end =
                "update jobs set state = 'failed', finished_at = 1, error_code = 'internal_error', error_message = ''";
            harness.meddle(&format!("{end} where run_at <= {history}; analyze jobs; {COUNT_NOW}")).await;
        }
        // Planned now, which must not matter later.
        assert_eq!(store.claim_next(&worker()).await.unwrap(), None);
        harness.meddle(&backlog(BACKLOG)).await;
        Self { harness, store }
    }

    async fn reads(&self) -> Reads {
        let mut connection = self.store.pool().acquire().await.unwrap();
        sqlx::query("select pg_stat_force_next_flush()").execute(&mut *connection).await.unwrap();
        drop(connection);
        let (seq_scans, index_entries): (i64, i64) = sqlx::query_as(
            "select
                 (select seq_scan from pg_stat_user_tables where relname = 'jobs'),
                 (select sum(idx_tup_read)::bigint from pg_stat_user_indexes where relname = 'jobs')",
        )
        .fetch_one(self.harness.store.pool())
        .await
        .unwrap();
        Reads { seq_scans, index_entries }
    }

    /// Expects that `verb` reads hardly anything of the table.
    async fn assert_cheap<T>(&self, name: &str, verb: impl AsyncFnOnce(&PostgresStore) -> T) -> T {
        self.assert_within(300, name, verb).await
    }

    /// Expects that `verb` reads fewer index entries than `most`.
    async fn assert_within<T>(&self, most: i64, name: &str, verb: impl AsyncFnOnce(&PostgresStore) -> T) -> T {
        let before = self.reads().await;
        let answer = verb(&self.store).await;
        let after = self.reads().await;
        assert_eq!(after.seq_scans, before.seq_scans, "{name} read the whole table");
        let entries = after.index_entries - before.index_entries;
        assert!(entries < most, "{name} read {entries} index entries");
        answer
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_backlog_of_a_capped_tenant_costs_nobody_anything() {
    assert_all_cheap(Counted::new(0).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plans_made_when_nothing_waited_are_as_cheap_when_much_does() {
    assert_all_cheap(Counted::new(20_000).await).await;
}

async fn assert_all_cheap(counted: Counted) {
    let claimed =
        counted.assert_cheap("a claim in vain", async |store| store.claim_next(&worker()).await.unwrap()).await;
    assert_eq!(claimed, None);
    let ready = counted.assert_cheap("the hints", async |store| store.ready(20).await.unwrap()).await;
    assert_eq!(ready, []);

    let job = counted.assert_cheap("a create", async |store| store.create(new_job()).await.unwrap()).await;
    let claimed =
        counted.assert_cheap("a claim", async |store| store.claim_next(&worker()).await.unwrap().unwrap()).await;
    assert_eq!(claimed.job.id, job.id);
    let lease = claimed.lease;
    counted.assert_cheap("a begin", async |store| Store::begin(store, &lease).await.unwrap()).await;
    counted.assert_cheap("a beat", async |store| store.beat(&lease, &Progress::START).await.unwrap()).await;
    counted.assert_cheap("a sweep", async |store| store.reclaim_expired(100).await.unwrap()).await;
    counted.assert_cheap("a look for deadlines", async |store| store.fail_overdue(100).await.unwrap()).await;
    counted.assert_cheap("a look for results", async |store| store.expire_results(100).await.unwrap()).await;
    let after = counted.store.now().await.unwrap();
    counted.assert_cheap("the next moment", async |store| store.next_due(after).await.unwrap()).await;
    counted.assert_cheap("a finish", async |store| store.finish(&lease, completed(&lease)).await.unwrap()).await;
    let place = counted.store.create(new_job()).await.unwrap();
    let place = counted
        .assert_cheap("a place", async |store| store.queue_position(&Tenant::default(), place.id).await.unwrap())
        .await;
    assert!(place.is_some());

    let (free, capped) = (Tenant::default(), "capped".parse().unwrap());
    counted.assert_cheap("a look for room", async |store| store.check_room(&free).await.unwrap()).await;
    let limits = TenantLimits { max_running: Some(0), max_queued: Some(100), ..TenantLimits::default() };
    counted.harness.store.set_tenant(&capped, &limits).await.unwrap();
    let full = counted.assert_cheap("a look for room in vain", async |store| store.check_room(&capped).await).await;
    assert!(matches!(full, Err(StoreError::QueueFull { limit: 100, .. })), "{full:?}");
    let (id, keys) = (JobId::new(), ["v1/a".parse().unwrap()]);
    counted.assert_cheap("an abandonment", async |store| store.abandon_inputs(id, &keys).await.unwrap()).await;
}

/// Inserts `jobs` waiting jobs; tenant and rows are expressions over their number `n`.
fn waiting(tenant: &str, jobs: i64, rows: &str, spec_version: i64, first_rank: i64) -> String {
    format!(
        "insert into jobs (id, tenant, model, partition, capacity_class, rows, priority, spec_version, spec,
             cost_tflop, rank, virtual_finish, created_at, run_at, max_attempts)
         select gen_random_uuid(), {tenant}, 'm', 'fl2va', 0, {rows}, 'normal', {spec_version}, '{{}}', 1.0,
             {first_rank} + n, {first_rank} + n, n, n, 3
         from generate_series(1, {jobs}) n"
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_that_a_worker_cannot_decode_cost_it_nothing() {
    let counted = Counted::new(0).await;
    counted.harness.meddle(&waiting("'newer'", 20_000, "1000", 2, 0)).await;
    counted.harness.meddle(&waiting("'known'", 2, "1000", 1, 30_000)).await;
    for _ in 0..2 {
        let claimed =
            counted.assert_cheap("a claim", async |store| store.claim_next(&worker()).await.unwrap().unwrap()).await;
        assert_eq!(claimed.job.tenant.as_str(), "known");
    }
    let claimed =
        counted.assert_cheap("a claim in vain", async |store| store.claim_next(&worker()).await.unwrap()).await;
    assert_eq!(claimed, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_that_no_worker_knows_neither_fill_nor_cost_the_hints() {
    let counted = Counted::new(0).await;
    let card = WorkerCard {
        id: WorkerId::new(),
        host: "h".to_owned(),
        version: "v".to_owned(),
        partitions: vec![Partition::Fl2va],
        spec_versions: vec![1],
        max_rows: None,
        state: WorkerState::Idle,
    };
    counted.store.announce(&card).await.unwrap();
    counted.harness.meddle(&waiting("'newer-' || n % 500", 20_000, "1000", 2, 0)).await;
    counted.harness.meddle(&waiting("'known'", 2, "1000", 1, 30_000)).await;
    let ready = counted.assert_cheap("the hints", async |store| store.ready(20).await.unwrap()).await;
    assert_eq!(ready.into_iter().map(|hint| hint.rank).collect::<Vec<_>>(), [30_001.0, 30_002.0]);
    // Their worker makes the newer ones count.
    counted.store.announce(&WorkerCard { id: WorkerId::new(), spec_versions: vec![2], ..card }).await.unwrap();
    let ready = counted.assert_cheap("the hints", async |store| store.ready(20).await.unwrap()).await;
    assert_eq!(
        ready.into_iter().map(|hint| hint.rank).collect::<Vec<_>>(),
        (1..=20).map(f64::from).collect::<Vec<_>>()
    );
}

/// What runs is counted once for each tenant that has a cap, however many of its jobs stand in front, and of no other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn running_jobs_are_counted_once_and_only_where_there_is_a_cap() {
    const RUNNING: i64 = 2_000;
    let counted = Counted::new(0).await;
    let store = &counted.harness.store;
    let busy: Tenant = "busy".parse().unwrap();
    let capped = |most| TenantLimits { max_running: Some(most), ..TenantLimits::default() };
    store.set_tenant(&busy, &capped(2_000)).await.unwrap();
    let weighed = TenantLimits { weight: Weight::new(2.0).unwrap(), ..TenantLimits::default() };
    store.set_tenant(&"weighed".parse().unwrap(), &weighed).await.unwrap();
    for tenant in ["'busy'", "'weighed'"] {
        counted.harness.meddle(&waiting(tenant, RUNNING, "1000", 1, 0)).await;
    }
    let run = "update jobs set state = 'running', fence = 1, attempt = 1, claim_token = gen_random_uuid(),
                   worker = gen_random_uuid(), lease_expires_at = 1e18
               where tenant in ('busy', 'weighed')";
    counted.harness.meddle(run).await;
    // In front of all others, in three queues.
    counted.harness.meddle(&waiting("'busy'", 300, "1000", 1, -1_000)).await;
    counted
        .harness
        .meddle(
            "update jobs set capacity_class = n.number % 3 from (select id, row_number() over () as number
        from jobs where tenant = 'busy' and state = 'queued') n where n.id = jobs.id",
        )
        .await;

    // What the updates have left in the indexes would be counted too.
    counted.harness.meddle("vacuum jobs").await;

    let once = RUNNING + 1_000;
    let claim = async |store: &PostgresStore| store.claim_next(&worker()).await.unwrap();
    assert_eq!(counted.assert_within(once, "a claim in vain", claim).await, None);
    let hints = async |store: &PostgresStore| store.ready(20).await.unwrap();
    assert_eq!(counted.assert_within(once, "hints of nothing", hints).await, []);

    counted.harness.meddle(&waiting("'weighed'", 3, "1000", 1, 0)).await;
    let claimed = counted.assert_within(once, "a claim", claim).await.unwrap();
    assert_eq!(claimed.job.tenant.as_str(), "weighed");
    let hinted = counted.assert_within(once, "the hints", hints).await;
    assert_eq!(hinted.len(), 2);

    // One that has a cap and room is counted once more, under its lock.
    store.set_tenant(&busy, &capped(2_002)).await.unwrap();
    let claimed = counted.assert_within(once + RUNNING, "a claim", claim).await.unwrap();
    assert_eq!(claimed.job.tenant, busy);
    let hinted = counted.assert_within(once, "the hints", hints).await;
    assert!(hinted.len() >= 2, "{hinted:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_does_not_look_at_each_tenant_and_the_hints_at_no_more_than_their_window() {
    let counted = Counted::new(0).await;
    counted.harness.meddle(&waiting("'t' || n % 5000", 50_000, "1000", 1, 0)).await;
    for expected in ["t1", "t2", "t3"] {
        let claimed =
            counted.assert_cheap("a claim", async |store| store.claim_next(&worker()).await.unwrap().unwrap()).await;
        assert_eq!(claimed.job.tenant.as_str(), expected);
    }
    let before = counted.reads().await;
    let ready = counted.store.ready(100).await.unwrap();
    let read = counted.reads().await.index_entries - before.index_entries;
    assert_eq!(ready.iter().map(|hint| hint.rank).collect::<Vec<_>>(), (4..104).map(f64::from).collect::<Vec<_>>());
    // Twice as many of each of the three queues.
    assert!(read < 1_000, "{read} entries were read for a hundred hints");
    let place = counted.store.create(new_job()).await.unwrap().id;
    let place =
        counted.assert_cheap("a place", async |store| store.queue_position(&Tenant::default(), place).await.unwrap());
    assert!(matches!(place.await, Some(1..10)), "it stands near the front");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_of_one_status_does_not_read_the_others() {
    for history in [0, 20_000] {
        let counted = Counted::new(history).await;
        let capped: Tenant = "capped".parse().unwrap();
        for status in [Status::InProgress, Status::Completed] {
            for order in [Order::Ascending, Order::Descending] {
                let query = ListQuery { status: Some(status), order, ..ListQuery::default() };
                let page =
                    counted.assert_cheap("a list", async |store| store.list(&capped, &query).await.unwrap()).await;
                assert_eq!(page.jobs, []);
            }
        }
        for status in [None, Some(Status::Queued)] {
            let query = ListQuery { status, ..ListQuery::default() };
            let page = counted.assert_cheap("a list", async |store| store.list(&capped, &query).await.unwrap()).await;
            assert_eq!((page.jobs.len(), page.has_more), (20, true));
        }
    }
}

/// A model that few of a tenant's jobs name, or none, is looked for among its own, whatever the planner believes of models.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_that_had_to_begin_before_now_are_passed_over_once_until_a_sweep_ends_them() {
    const OVERDUE: i64 = 2_000;
    let counted = Counted::new(0).await;
    let overdue = format!(
        "insert into jobs (id, tenant, model, partition, capacity_class, rows, priority, spec_version, spec,
             cost_tflop, rank, virtual_finish, created_at, run_at, start_by, max_attempts)
         select gen_random_uuid(), 'late', 'm', 'fl2va', n % 3, 1000, 'normal', 1, '{{}}', 1.0, 0.1, 0.1, n, n, n + 1, 3
         from generate_series(1, {OVERDUE}) n"
    );
    counted.harness.meddle(&overdue).await;
    let late = || NewJob { tenant: "late".parse().unwrap(), ..new_job() };
    let behind = counted.harness.store.create(late()).await.unwrap().id;
    // Each once, at the index and in its row.
    let most = 2 * OVERDUE + 300;
    let hints =
        counted.assert_within(most, "hints past overdue jobs", async |store| store.ready(20).await.unwrap()).await;
    assert_eq!(hints.into_iter().map(|hint| hint.job).collect::<Vec<_>>(), [behind]);
    let claim = async |store: &PostgresStore| store.claim_next(&worker()).await.unwrap();
    let claimed = counted.assert_within(most, "a claim past overdue jobs", claim).await;
    assert_eq!(claimed.map(|claimed| claimed.job.id), Some(behind));

    while !counted.store.fail_overdue(1_000).await.unwrap().is_empty() {}
    // What the updates have left in the indexes would be counted too.
    counted.harness.meddle("vacuum jobs").await;
    let next = counted.harness.store.create(late()).await.unwrap().id;
    let claimed = counted.assert_cheap("a claim after the sweep", claim).await;
    assert_eq!(claimed.map(|claimed| claimed.job.id), Some(next));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_of_one_model_does_not_read_the_others() {
    for history in [0, 20_000] {
        let counted = Counted::new(history).await;
        let capped: Tenant = "capped".parse().unwrap();
        let mut made = Vec::new();
        for _ in 0..3 {
            let new = NewJob { tenant: capped.clone(), model: "rare".to_owned(), ..new_job() };
            made.push(counted.harness.store.create(new).await.unwrap().id);
        }
        counted.harness.meddle(COUNT_NOW).await;
        // As often as it takes until a plan is made for whatever is asked.
        for _ in 0..3 {
            for order in [Order::Ascending, Order::Descending] {
                for (model, status, mut expected) in [
                    ("rare", None, made.clone()),
                    ("rare", Some(Status::Queued), made.clone()),
                    ("rare", Some(Status::Completed), vec![]),
                    ("none", None, vec![]),
                ] {
                    if order == Order::Descending {
                        expected.reverse();
                    }
                    let query = ListQuery { model: Some(model.to_owned()), status, order, ..ListQuery::default() };
                    let page =
                        counted.assert_cheap("a list", async |store| store.list(&capped, &query).await.unwrap()).await;
                    assert_eq!(page.jobs.iter().map(|job| job.id).collect::<Vec<_>>(), expected, "{query:?}");
                }
            }
        }
        let query = ListQuery { model: Some("m".to_owned()), ..ListQuery::default() };
        let page = counted.assert_cheap("a list", async |store| store.list(&capped, &query).await.unwrap()).await;
        assert_eq!((page.jobs.len(), page.has_more), (20, true));
        // Nobody has the pair, and neither those of the model nor the others are gone through for it.
        let query = ListQuery { model: Some("m".to_owned()), metadata: noted("app", "none"), ..ListQuery::default() };
        let page = counted.assert_cheap("a list", async |store| store.list(&capped, &query).await.unwrap()).await;
        assert_eq!(page.jobs, []);
        let none = ListQuery { model: Some("rare".to_owned()), ..ListQuery::default() };
        assert_eq!(counted.store.list(&Tenant::default(), &none).await.unwrap().jobs, []);
    }
}

fn noted(key: &str, value: &str) -> Metadata {
    Metadata::new([(key.to_owned(), value.to_owned())].into()).unwrap()
}

/// What a client has noted of its jobs finds them among all that the tenant has, and what nobody has noted costs nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_are_found_by_their_metadata_without_reading_the_others() {
    for history in [0, 20_000] {
        let counted = Counted::new(history).await;
        let capped: Tenant = "capped".parse().unwrap();
        let many = "insert into jobs (id, tenant, model, partition, capacity_class, rows, priority, spec_version, spec,
                 cost_tflop, rank, virtual_finish, created_at, run_at, max_attempts, metadata)
             select gen_random_uuid(), 'other', 'm', 'fl2va', 0, 1000, 'normal', 1, '{}', 1.0, n, n, n, n, 3,
                 '{\"batch\": \"one\"}'
             from generate_series(1, 12000) n";
        counted.harness.meddle(many).await;
        let mut made = Vec::new();
        for number in 0..3 {
            let metadata = if number == 1 { noted("batch", "two") } else { noted("batch", "one") };
            let new = NewJob { tenant: capped.clone(), metadata, ..new_job() };
            made.push(counted.harness.store.create(new).await.unwrap().id);
        }
        counted.harness.meddle(COUNT_NOW).await;
        for order in [Order::Ascending, Order::Descending] {
            for (value, status, mut expected) in [
                ("one", None, vec![made[0], made[2]]),
                ("one", Some(Status::Queued), vec![made[0], made[2]]),
                ("one", Some(Status::Completed), vec![]),
                ("two", None, vec![made[1]]),
                ("nothing", None, vec![]),
            ] {
                if order == Order::Descending {
                    expected.reverse();
                }
                let query = ListQuery { metadata: noted("batch", value), status, order, ..ListQuery::default() };
                let page =
                    counted.assert_cheap("a list", async |store| store.list(&capped, &query).await.unwrap()).await;
                assert_eq!(page.jobs.iter().map(|job| job.id).collect::<Vec<_>>(), expected, "{query:?}");
            }
        }
        // So many have these that they are met on the way.
        let query = ListQuery { metadata: noted("batch", "one"), ..ListQuery::default() };
        let page = counted.store.list(&"other".parse().unwrap(), &query).await.unwrap();
        assert_eq!((page.jobs.len(), page.has_more, page.jobs[0].created_at.0), (20, true, 12_000));
    }
}

/// Expects that the store's one connection reads neither table whole nor more than `most` index entries of both.
async fn assert_no_scan<T>(
    harness: &Harness,
    store: &PostgresStore,
    most: i64,
    name: &str,
    verb: impl AsyncFnOnce(&PostgresStore) -> T,
) -> T {
    let counts = async || -> (i64, i64) {
        sqlx::query("select pg_stat_force_next_flush()").execute(store.pool()).await.unwrap();
        let counts = "select
            (select sum(seq_scan)::bigint from pg_stat_user_tables where relname in ('deliveries', 'api_keys')),
            (select sum(idx_tup_read)::bigint from pg_stat_user_indexes where relname in ('deliveries', 'api_keys'))";
        sqlx::query_as(counts).fetch_one(harness.store.pool()).await.unwrap()
    };
    let before = counts().await;
    let answer = verb(store).await;
    let after = counts().await;
    assert_eq!(after.0, before.0, "{name} read a whole table");
    assert!(after.1 - before.1 < most, "{name} read {} index entries", after.1 - before.1);
    answer
}

/// Neither what was told long ago nor the backlog of a receiver that is slow, or disabled, costs the others anything; nor does
/// it matter when a plan was made.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deliveries_and_keys_are_found_among_many() {
    let harness = harness().await;
    let one = Options { max_connections: 1, ..harness.options.clone() };
    let store = PostgresStore::connect(&one, Policy::default()).await.unwrap();
    let hold = Duration::from_secs(1);
    let key = KeyHash([7; 32]);
    // Planned while nothing is there.
    for _ in 0..8 {
        assert_eq!(store.take_due(10, 2, 100, hold).await.unwrap(), []);
        assert_eq!(store.grant_of(&key).await.unwrap(), None);
    }
    let secret = Secret::random();
    store.hook_secret(&"hooked".parse().unwrap(), &secret).await.unwrap();
    let mut endpoints = Vec::new();
    for name in ["slow", "disabled", "quiet"] {
        let endpoint = Endpoint::new(name.parse().unwrap(), format!("https://example.org/{name}"));
        store.add_endpoint(&endpoint).await.unwrap();
        endpoints.push(endpoint);
    }
    let many = "insert into deliveries (id, tenant, endpoint, url, job_id, notice, created_at, state, next_try_at, settled_at)
        select gen_random_uuid(), $1, $2, case when $2::uuid is null then 'u' end, gen_random_uuid(), 'video.failed', n, $3,
            case when $3 = 'pending' then n end, case when $3 <> 'pending' then n end
        from generate_series(1, $4::bigint) n";
    for (tenant, endpoint, state, count) in [
        ("slow", Some(endpoints[0].id.0), "pending", 20_000_i64),
        ("disabled", Some(endpoints[1].id.0), "pending", 20_000),
        ("quiet", Some(endpoints[2].id.0), "delivered", 20_000),
        ("quiet", Some(endpoints[2].id.0), "pending", 1),
        ("hooked", None, "pending", 20_000),
    ] {
        let filled =
            sqlx::query(many).bind(tenant).bind(endpoint).bind(state).bind(count).execute(harness.store.pool());
        assert_eq!(filled.await.unwrap().rows_affected(), count.unsigned_abs());
    }
    let change = EndpointChange { enabled: Some(false), ..EndpointChange::default() };
    store.change_endpoint(&"disabled".parse().unwrap(), endpoints[1].id, &change).await.unwrap();
    harness
        .meddle(
            "insert into api_keys (hash, tenant, created_at) select sha256(n::text::bytea), 't', n from generate_series(1, 20000) n",
        )
        .await;

    for analyzed in [false, true] {
        if analyzed {
            harness.meddle("analyze deliveries; analyze api_keys").await;
        }
        let taken = assert_no_scan(&harness, &store, 300, "a take", async |store| {
            store.take_due(10, 2, 100, Duration::ZERO).await.unwrap()
        });
        let mut tenants: Vec<String> = taken.await.iter().map(|due| due.tenant.to_string()).collect();
        tenants.sort();
        assert_eq!(tenants, ["hooked", "hooked", "quiet", "slow", "slow"]);
        let found =
            assert_no_scan(&harness, &store, 10, "a look for a key", async |store| store.grant_of(&key).await.unwrap());
        assert_eq!(found.await, None);
        let quiet = "quiet".parse().unwrap();
        for state in [None, Some(DeliveryState::Dead), Some(DeliveryState::Pending)] {
            for endpoint in [None, Some(endpoints[2].id)] {
                let query = DeliveryQuery { state, endpoint, ..DeliveryQuery::default() };
                let page = assert_no_scan(&harness, &store, 300, "a list", async |store| {
                    store.deliveries(&quiet, &query).await.unwrap()
                });
                let expected = match state {
                    None => 20,
                    Some(DeliveryState::Dead) => 0,
                    Some(_) => 1,
                };
                assert_eq!(page.await.deliveries.len(), expected, "{query:?}");
            }
        }
        let tested = assert_no_scan(&harness, &store, 300, "a test", async |store| {
            store.test_endpoint(&"slow".parse().unwrap(), endpoints[0].id, Notice::Failed).await
        });
        assert_eq!(tested.await.is_ok(), !analyzed);
        assert_no_scan(&harness, &store, 300, "the next moment", async |store| {
            store.next_delivery(clapboard_jobs::Micros(20_000)).await.unwrap()
        })
        .await;
    }
}

#[tokio::test]
async fn a_beat_moves_no_index_entry() {
    let harness = harness().await;
    let job = harness.store.create(new_job()).await.unwrap();
    let lease = harness.store.claim(job.id, &worker()).await.unwrap().unwrap().lease;
    harness.store.begin(&lease).await.unwrap();
    let store = PostgresStore::connect(&Options { max_connections: 1, ..harness.options.clone() }, Policy::default())
        .await
        .unwrap();
    let counts = async || -> (i64, i64) {
        sqlx::query("select pg_stat_force_next_flush()").execute(store.pool()).await.unwrap();
        let counts = "select n_tup_upd, n_tup_hot_upd from pg_stat_user_tables where relname = 'jobs'";
        sqlx::query_as(counts).fetch_one(harness.store.pool()).await.unwrap()
    };
    let before = counts().await;
    for step in 0..50 {
        store.beat(&lease, &Progress { step, ..Progress::START }).await.unwrap();
    }
    let after = counts().await;
    assert_eq!((after.0 - before.0, after.1 - before.1), (50, 50));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_told_of_a_long_backlog_costs_no_more_than_what_is_counted() {
    let counted = Counted::new(0).await;
    let most = i64::from(clapboard_jobs::backlog::MOST_COUNTED);
    let backlog =
        counted.assert_within(most + 500, "a count", async |store| Store::backlog(store).await.unwrap()).await;
    assert_eq!(backlog.depths[0].queued.count, most.unsigned_abs());
}
