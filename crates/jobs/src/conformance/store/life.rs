//! A job from its making to its end.

use std::time::Duration;

use super::*;
use crate::id::Fence;
use crate::state::{JobState, Status};
use crate::store::StoreError;
use crate::trace::TraceParent;

/// A new job is queued, untouched, and found again as it was made.
pub async fn a_new_job_waits(harness: &impl StoreHarness) {
    let store = harness.store();
    let new = new_job();
    let now = store.now().await.expect("the store answers");
    let job = store.create(new.clone()).await.expect("a job is made");
    assert_eq!((job.id, &job.tenant, &job.model), (new.id, &new.tenant, &new.model));
    assert_eq!((job.partition, &job.spec, job.cost_tflop), (new.partition, &new.spec, new.cost_tflop));
    assert_eq!((job.state, job.status()), (JobState::Queued, Status::Queued));
    assert_eq!((job.attempt, job.fence, job.max_attempts), (0, Fence(0), Policy::default().max_attempts));
    assert_eq!(job.progress, Progress::START);
    assert!(job.created_at >= now && job.run_at == job.created_at);
    assert_eq!((job.begun_at, job.finished_at, job.cancel_requested_at), (None, None, None));
    assert_eq!((job.worker, job.lease_expires_at), (None, None));
    assert_eq!((&job.result, &job.report, &job.error), (&None, &None, &None));
    assert_eq!(get(&*store, job.id).await, job);
    assert_eq!(history(&*store, job.id).await, []);
}

/// create, claim, begin, beat, finish.
pub async fn a_job_runs_from_its_claim_to_its_stored_result(harness: &impl StoreHarness) {
    let store = harness.store();
    let made = create(&*store).await;

    let claimant = worker();
    let Claimed { lease, job } =
        store.claim(made.id, &claimant).await.expect("the store answers").expect("the job can be claimed");
    assert_eq!((lease.job, &lease.tenant, lease.worker), (made.id, &made.tenant, claimant.worker));
    assert_eq!((lease.fence, lease.duration), (Fence(1), lease_duration()));
    assert_eq!((job.state, job.attempt, job.fence), (JobState::Running, 1, Fence(1)));
    assert_eq!((job.worker, job.lease_expires_at), (Some(claimant.worker), Some(lease.expires_at)));
    assert_eq!(job, get(&*store, job.id).await);

    harness.advance(Duration::from_secs(5)).await;
    let begun = store.begin(&lease).await.expect("the lease holds");
    assert!(begun.lease_expires_at > lease.expires_at && !begun.cancel_requested);
    assert_eq!(get(&*store, made.id).await.status(), Status::InProgress);

    harness.advance(Duration::from_secs(5)).await;
    let progress = at(Phase::Denoise, 3, 49, 17);
    let beat = store.beat(&lease, &progress).await.expect("the lease holds");
    assert!(beat.lease_expires_at > begun.lease_expires_at && !beat.cancel_requested);
    let job = get(&*store, made.id).await;
    assert_eq!((job.progress, job.lease_expires_at), (progress, Some(beat.lease_expires_at)));

    let Outcome::Completed { object, report, .. } = completed(&lease) else {
        unreachable!("it is a completed outcome")
    };
    let state = store.finish(&lease, completed(&lease)).await.expect("the lease holds");
    assert_eq!(state, JobState::Completed);
    let job = get(&*store, made.id).await;
    assert_eq!((job.state, job.status(), job.progress.percent), (JobState::Completed, Status::Completed, 100));
    assert_eq!((&job.result, &job.report, &job.error), (&Some(object), &Some(report), &None));
    assert_eq!((job.worker, job.lease_expires_at), (None, None));
    assert!(job.created_at <= job.begun_at.expect("it has begun"));
    assert!(job.begun_at <= job.finished_at);

    let attempts = history(&*store, made.id).await;
    assert_eq!(attempts.len(), 1);
    let attempt = &attempts[0];
    assert_eq!((attempt.fence, attempt.number, attempt.worker), (Fence(1), 1, claimant.worker));
    assert_eq!((attempt.begun_at, &attempt.error), (job.begun_at, &None));
    assert_eq!(attempt.ended, Some((job.finished_at.expect("it has ended"), AttemptEnd::Completed)));
}

/// A fatal error ends the job and is told to its client.
pub async fn a_failed_job_tells_why(harness: &impl StoreHarness) {
    let store = harness.store();
    let lease = running(&*store).await;
    store.beat(&lease, &at(Phase::DecodeVideo, 1, 9, 88)).await.expect("the lease holds");
    let error = JobError::new(FailureCode::StorageFailed, "the video could not be stored");
    let state = store.finish(&lease, Outcome::Failed(error.clone())).await.expect("the lease holds");
    assert_eq!(state, JobState::Failed);
    let job = get(&*store, lease.job).await;
    assert_eq!((job.state, job.status()), (JobState::Failed, Status::Failed));
    assert_eq!((&job.error, &job.result, &job.report), (&Some(error.clone()), &None, &None));
    assert_eq!(job.progress.percent, 88);
    let attempts = history(&*store, lease.job).await;
    assert_eq!(attempts[0].error, Some(error));
    assert_eq!(ends(&*store, lease.job).await, [Some(AttemptEnd::Failed)]);
    assert_fenced(&*store, &lease).await;
}

/// A job claimed ahead is not yet in progress.
pub async fn a_claimed_job_is_queued_for_its_client_until_it_begins(harness: &impl StoreHarness) {
    let store = harness.store();
    let made = create(&*store).await;
    let Claimed { lease, job } = claim(&*store, made.id).await;
    assert_eq!((job.state, job.status(), job.begun_at), (JobState::Running, Status::Queued, None));
    store.begin(&lease).await.expect("the lease holds");
    let job = get(&*store, made.id).await;
    assert_eq!((job.state, job.status()), (JobState::Running, Status::InProgress));
    assert!(job.begun_at.is_some());
}

/// A late or wild report makes no client see progress go back, nor 100 before there is a result.
pub async fn percent_only_grows_and_stays_below_a_hundred(harness: &impl StoreHarness) {
    let store = harness.store();
    let lease = running(&*store).await;
    for (reported, shown) in [(10, 10), (40, 40), (30, 40), (100, 99), (255, 99), (0, 99)] {
        store.beat(&lease, &at(Phase::Denoise, 1, 2, reported)).await.expect("the lease holds");
        assert_eq!(get(&*store, lease.job).await.progress.percent, shown, "after {reported}");
    }
}

/// A begin that is sent again after its answer was lost changes nothing.
pub async fn beginning_twice_keeps_the_first_moment(harness: &impl StoreHarness) {
    let store = harness.store();
    let lease = running(&*store).await;
    let first = get(&*store, lease.job).await.begun_at;
    harness.advance(Duration::from_secs(1)).await;
    store.begin(&lease).await.expect("the lease holds");
    let job = get(&*store, lease.job).await;
    let moved = job.begun_at.expect("it has begun").since(first.expect("it has begun"));
    // A harness that moves rows instead of a clock moves the moment back, never forward.
    assert_eq!(moved, Duration::ZERO);
    assert_eq!(history(&*store, lease.job).await[0].begun_at, job.begun_at);
}

/// A worker that is done before it could say that it has begun has begun all the same.
pub async fn a_job_that_completes_has_begun(harness: &impl StoreHarness) {
    let store = harness.store();
    let id = create(&*store).await.id;
    let lease = claim(&*store, id).await.lease;
    store.finish(&lease, completed(&lease)).await.expect("the lease holds");
    let job = get(&*store, id).await;
    assert!(job.begun_at.is_some());
    assert_eq!(job.begun_at, job.finished_at);
    assert_eq!(history(&*store, id).await[0].begun_at, job.begun_at);
}

/// A second job of the same id is refused, and the first stays as it is.
pub async fn an_id_is_used_once(harness: &impl StoreHarness) {
    let store = harness.store();
    let first = create(&*store).await;
    let second = NewJob { id: first.id, model: "other".to_owned(), ..new_job() };
    let refused = store.create(second).await.expect_err("the id is taken");
    assert!(matches!(refused, StoreError::Duplicate { id } if id == first.id), "{refused}");
    assert_eq!(get(&*store, first.id).await, first);
}

/// An older program keeps and shows the jobs of a newer one.
pub async fn a_spec_of_a_newer_program_is_kept_unread(harness: &impl StoreHarness) {
    let store = harness.store();
    let spec = SpecRecord {
        version: GenerationSpec::VERSION_WITH_INPUTS + 1,
        json: r#"{"from":["the","future"]}"#.to_owned(),
    };
    let job = store.create(NewJob { spec: spec.clone(), ..new_job() }).await.expect("a job is made");
    assert_eq!(get(&*store, job.id).await.spec, spec);
}

/// No verb of a client's reaches another tenant's job.
pub async fn another_tenant_sees_nothing(harness: &impl StoreHarness) {
    let store = harness.store();
    let job = create(&*store).await;
    let other: Tenant = "other".parse().expect("the name is legal");
    assert_eq!(store.get(&other, job.id).await.expect("the store answers"), None);
    assert_eq!(store.cancel(&other, job.id).await.expect("the store answers"), None);
    assert_eq!(store.delete(&other, job.id).await.expect("the store answers"), None);
    assert_eq!(store.queue_position(&other, job.id).await.expect("the store answers"), None);
    let Claimed { lease, .. } = claim(&*store, job.id).await;
    assert_eq!(store.attempts(&other, job.id).await.expect("the store answers"), []);
    assert_eq!(store.cancel(&other, job.id).await.expect("the store answers"), None);
    assert!(!store.begin(&lease).await.expect("the lease holds").cancel_requested);
}

/// What a client says of its job is told back word for word.
pub async fn what_a_client_says_is_told_back(harness: &impl StoreHarness) {
    let store = harness.store();
    let original = create(&*store).await;
    assert_eq!((&original.metadata, &original.told), (&Metadata::default(), &Told::default()));
    assert_eq!((original.remixed_from, original.trace), (None, None));
    let pairs = [("plain", "value"), ("Ünï \"key\".x[0]", "a\\b\n'c'"), ("empty", ""), ("emoji", "🎬")];
    let metadata = pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    let metadata = Metadata::new(metadata).expect("within bounds");
    let told = Told { user: Some("someone".to_owned()), stage_metrics: true };
    let trace: Option<TraceParent> = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".parse().ok();
    let made = make(&*store, |new| {
        (new.metadata, new.told, new.trace) = (metadata.clone(), told.clone(), trace.clone());
        new.remixed_from = Some(original.id);
    })
    .await;
    let claimed = claim(&*store, made.id).await.job;
    for job in [made.clone(), get(&*store, made.id).await, claimed] {
        assert_eq!((job.metadata, job.told, job.trace), (metadata.clone(), told.clone(), trace.clone()));
        assert_eq!(job.remixed_from, Some(original.id));
    }
}

/// An operator who has an id from a log finds its job, whosever it is.
pub async fn a_job_is_found_by_its_id_alone(harness: &impl StoreHarness) {
    let store = harness.store();
    for owner in [tenant(), named("other")] {
        let job = make_for(&*store, &owner).await;
        assert_eq!(store.find(job.id).await.expect("the store answers"), Some(job));
    }
    assert_eq!(store.find(JobId::new()).await.expect("the store answers"), None);
}
