//! Listing a tenant's jobs.

use super::*;
use crate::state::Status;
use crate::store::{JobPage, ListQuery, Order, StoreError};

async fn list(store: &dyn Store, query: &ListQuery) -> JobPage {
    store.list(&tenant(), query).await.expect("the store answers")
}

fn ids(page: &JobPage) -> Vec<JobId> {
    page.jobs.iter().map(|job| job.id).collect()
}

/// Jobs made at the same moment are neither doubled nor left out at the border of two pages.
pub async fn pages_cover_all_jobs_once_within_one_microsecond(harness: &impl StoreHarness) {
    let store = harness.store();
    let mut made = Vec::new();
    for _ in 0..7 {
        made.push(create(&*store).await);
    }
    let stranger = NewJob { tenant: "other".parse().expect("the name is legal"), ..new_job() };
    store.create(stranger).await.expect("a job is made");
    made.sort_by_key(|job| (job.created_at, job.id));
    let ascending: Vec<JobId> = made.iter().map(|job| job.id).collect();
    let descending: Vec<JobId> = ascending.iter().rev().copied().collect();

    for (order, expected) in [(Order::Ascending, ascending), (Order::Descending, descending)] {
        let mut paged = Vec::new();
        let mut after = None;
        loop {
            let page = list(&*store, &ListQuery { after, limit: 3, order, ..ListQuery::default() }).await;
            assert_eq!(page.jobs.len(), 3.min(expected.len() - paged.len()));
            after = page.jobs.last().map(|job| job.id);
            paged.extend(ids(&page));
            assert_eq!(page.has_more, paged.len() < expected.len());
            if !page.has_more {
                break;
            }
        }
        assert_eq!(paged, expected, "{order:?}");
        let last = expected.last().copied();
        let beyond = list(&*store, &ListQuery { after: last, limit: 3, order, ..ListQuery::default() }).await;
        assert_eq!(beyond, JobPage { jobs: vec![], has_more: false });
    }
}

/// A client that deletes as it pages loses nothing.
pub async fn a_list_goes_on_after_a_deleted_job(harness: &impl StoreHarness) {
    let store = harness.store();
    for _ in 0..4 {
        create(&*store).await;
    }
    let all = ids(&list(&*store, &ListQuery::default()).await);
    let first = list(&*store, &ListQuery { limit: 2, ..ListQuery::default() }).await;
    assert_eq!(ids(&first), all[..2]);
    store.delete(&tenant(), all[1]).await.expect("the store answers");
    let rest = list(&*store, &ListQuery { after: Some(all[1]), ..ListQuery::default() }).await;
    assert_eq!(ids(&rest), all[2..]);
}

/// A cursor that never was, or is another tenant's, is an error and not an empty page.
pub async fn a_list_does_not_go_on_after_a_job_that_never_was(harness: &impl StoreHarness) {
    let store = harness.store();
    create(&*store).await;
    let stranger = NewJob { tenant: "other".parse().expect("the name is legal"), ..new_job() };
    let stranger = store.create(stranger).await.expect("a job is made").id;
    for unknown in [JobId::new(), stranger] {
        let query = ListQuery { after: Some(unknown), ..ListQuery::default() };
        let refused = store.list(&tenant(), &query).await.expect_err("there is no such job");
        assert!(matches!(refused, StoreError::UnknownCursor { after } if after == unknown), "{refused}");
    }
}

/// The filter takes the words that clients are told, so a claimed job that has not begun is queued.
pub async fn a_list_shows_one_status(harness: &impl StoreHarness) {
    let store = harness.store();
    let queued = create(&*store).await.id;
    let claimed = create(&*store).await.id;
    claim(&*store, claimed).await;
    let begun = running(&*store).await.job;
    let (done, broken) = (running(&*store).await, running(&*store).await);
    store.finish(&done, completed(&done)).await.expect("the lease holds");
    store.finish(&broken, Outcome::Failed(failed("broken"))).await.expect("the lease holds");
    let cancelled = create(&*store).await.id;
    store.cancel(&tenant(), cancelled).await.expect("the store answers");

    for (status, mut expected) in [
        (Status::Queued, vec![queued, claimed]),
        (Status::InProgress, vec![begun]),
        (Status::Completed, vec![done.job]),
        (Status::Failed, vec![broken.job, cancelled]),
    ] {
        let page = list(&*store, &ListQuery { status: Some(status), ..ListQuery::default() }).await;
        assert!(page.jobs.iter().all(|job| job.status() == status));
        let mut found = ids(&page);
        found.sort();
        expected.sort();
        assert_eq!(found, expected, "{status}");
    }
}

/// Jobs of every status come in the order of their creation, whichever status each has, page by page and whatever narrows the
/// list.
pub async fn a_list_of_all_mixes_the_statuses(harness: &impl StoreHarness) {
    let store = harness.store();
    let noted = Metadata::new([("batch".to_owned(), "one".to_owned())].into()).expect("within bounds");
    let mut made = Vec::new();
    for round in 0..12 {
        let job = make(&*store, |new| new.metadata = noted.clone()).await;
        make(&*store, |new| new.model = "another".to_owned()).await;
        match round % 4 {
            0 => {}
            1 => drop(claim(&*store, job.id).await),
            2 => drop(store.cancel(&tenant(), job.id).await.expect("the store answers")),
            _ => {
                let lease = claim(&*store, job.id).await.lease;
                store.begin(&lease).await.expect("the lease holds");
            }
        }
        made.push((job.created_at, job.id));
        harness.advance(Duration::from_micros(u64::from(round % 2 == 0))).await;
    }
    made.sort();
    let ascending: Vec<JobId> = made.into_iter().map(|(_, id)| id).collect();
    let descending: Vec<JobId> = ascending.iter().rev().copied().collect();
    for (order, expected) in [(Order::Ascending, ascending), (Order::Descending, descending)] {
        let model = Some(new_job().model);
        for query in [
            ListQuery { model: model.clone(), ..ListQuery::default() },
            ListQuery { metadata: noted.clone(), ..ListQuery::default() },
            ListQuery { model, metadata: noted.clone(), ..ListQuery::default() },
        ] {
            let (mut paged, mut after) = (Vec::new(), None);
            loop {
                let page = list(&*store, &ListQuery { after, limit: 5, order, ..query.clone() }).await;
                after = page.jobs.last().map(|job| job.id);
                paged.extend(ids(&page));
                if !page.has_more {
                    break;
                }
            }
            assert_eq!(paged, expected, "{query:?}, {order:?}");
        }
        let all = list(&*store, &ListQuery { order, limit: 100, ..ListQuery::default() }).await;
        assert_eq!(all.jobs.len(), 24);
        let of_model = ids(&all).into_iter().filter(|id| expected.contains(id)).collect::<Vec<JobId>>();
        assert_eq!(of_model, expected, "{order:?}");
    }
}

/// A limit of zero asks only whether there is anything.
pub async fn a_list_of_none_says_whether_there_are_some(harness: &impl StoreHarness) {
    let store = harness.store();
    let none = ListQuery { limit: 0, ..ListQuery::default() };
    assert_eq!(list(&*store, &none).await, JobPage { jobs: vec![], has_more: false });
    create(&*store).await;
    assert_eq!(list(&*store, &none).await, JobPage { jobs: vec![], has_more: true });
}

/// A list of one model or of some metadata has all of those and no others, page by page.
pub async fn a_list_is_narrowed_by_model_and_metadata(harness: &impl StoreHarness) {
    let store = harness.store();
    let of = |pairs: &[(&str, &str)]| {
        Metadata::new(pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect())
            .expect("within bounds")
    };
    let mut expected: [Vec<JobId>; 4] = Default::default();
    for number in 0..12 {
        let model = if number % 2 == 0 { "even" } else { "odd" };
        let third = (number % 3).to_string();
        let metadata = if number == 11 { of(&[]) } else { of(&[("third", &third), ("a.\"b'", "ä[0]"), ("n", model)]) };
        let id = make(&*store, |new| (new.model, new.metadata) = (model.to_owned(), metadata)).await.id;
        let matches =
            [number % 2 == 0, number % 3 == 1, number % 3 == 2 && number != 11 && number % 2 == 1, number < 11];
        for (ids, _) in expected.iter_mut().zip(matches).filter(|(_, matches)| *matches) {
            ids.push(id);
        }
    }
    let queries = [
        ListQuery { model: Some("even".to_owned()), ..ListQuery::default() },
        ListQuery { metadata: of(&[("third", "1")]), ..ListQuery::default() },
        ListQuery {
            model: Some("odd".to_owned()),
            metadata: of(&[("third", "2"), ("n", "odd")]),
            ..ListQuery::default()
        },
        ListQuery { metadata: of(&[("a.\"b'", "ä[0]")]), ..ListQuery::default() },
    ];
    for (query, expected) in queries.iter().zip(&expected) {
        assert!(!expected.is_empty());
        for status in [None, Some(Status::Queued)] {
            for order in [Order::Ascending, Order::Descending] {
                let (mut found, mut after) = (Vec::new(), None);
                loop {
                    let query = ListQuery { after, limit: 3, order, status, ..query.clone() };
                    let page = store.list(&tenant(), &query).await.expect("the store answers");
                    found.extend(page.jobs.iter().map(|job| job.id));
                    after = found.last().copied();
                    if !page.has_more {
                        break;
                    }
                }
                let mut sorted = found.clone();
                sorted.sort();
                let mut wanted = expected.clone();
                wanted.sort();
                assert_eq!(sorted, wanted, "{query:?}, {order:?}");
            }
        }
    }
    for nothing in [of(&[("third", "3")]), of(&[("Third", "1")]), of(&[("third", "1"), ("more", "")])] {
        let query = ListQuery { metadata: nothing, ..ListQuery::default() };
        assert_eq!(store.list(&tenant(), &query).await.expect("the store answers").jobs, []);
    }
}
