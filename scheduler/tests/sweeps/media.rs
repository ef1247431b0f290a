//! What becomes of the objects that rows named.

use std::sync::Arc;

use clapboard_jobs::fixtures::FaultyBlob;
use clapboard_jobs::{BlobError, BlobKey, JobError, NewJob, Outcome, RunReport, backoff};
use clapboard_scheduler::{Error, Garbage, Options, Orphans, Sweep, Swept};

use crate::house::House;
use crate::{LIFE, NOTHING};

#[tokio::test]
async fn the_objects_of_deleted_jobs_and_failed_attempts_are_deleted_and_results_are_kept() {
    let house = House::new().await;
    let garbage = house.garbage(&Options::default());
    house.submit().await;
    let kept = house.claim().await.lease;
    let object = house.put(&kept).await;
    let done = Outcome::Completed { object: object.clone(), previews: Vec::new(), report: RunReport::default() };
    house.store.finish(&kept, done).await.unwrap();
    house.submit().await;
    let cancelled = house.claim().await.lease;
    house.put(&cancelled).await;
    house.store.finish(&cancelled, Outcome::Failed(JobError::cancelled())).await.unwrap();
    // A put may still be under way until the lease would have ended.
    assert_eq!(garbage.sweep_once().await.unwrap(), NOTHING);
    house.clock.advance(house.policy.lease);
    assert_eq!(garbage.sweep_once().await.unwrap(), Swept { done: 1, more: false });
    assert_eq!(house.objects().await, [object.key]);

    house.store.delete(&house.tenant, kept.job).await.unwrap();
    assert_eq!(garbage.sweep_once().await.unwrap(), Swept { done: 1, more: false });
    assert_eq!(house.objects().await, []);
    assert_eq!(garbage.sweep_once().await.unwrap(), NOTHING);
}

#[tokio::test]
async fn objects_that_cannot_be_deleted_do_not_hold_up_others() {
    let house = House::new().await;
    let keys = house.make_garbage(6).await;
    let blob = Arc::new(FaultyBlob::failing(Arc::clone(&house.blob), 0));
    let options = Options { batch: 2, ..Options::default() };
    let garbage = Garbage::new(Arc::clone(&house.store), Arc::clone(&blob) as _, &options);
    // The oldest two, a whole batch, and one in the next.
    blob.keep_for_ever(keys[..3].to_vec());
    assert!(garbage.sweep_once().await.is_err(), "nothing could be deleted");
    assert_eq!(garbage.sweep_once().await.unwrap(), Swept { done: 1, more: true });
    assert_eq!(garbage.sweep_once().await.unwrap(), Swept { done: 2, more: true });
    assert_eq!(garbage.sweep_once().await.unwrap(), NOTHING);
    let mut left = keys[..3].to_vec();
    left.sort();
    assert_eq!(house.objects().await, left);

    // They are not forgotten: once they can be deleted, they are.
    blob.keep_for_ever([]);
    house.clock.advance(backoff::garbage_delay(1));
    assert_eq!(garbage.sweep_once().await.unwrap(), Swept { done: 2, more: true });
    assert_eq!(garbage.sweep_once().await.unwrap(), Swept { done: 1, more: false });
    assert_eq!(house.objects().await, []);
}

#[tokio::test]
async fn a_media_store_that_is_away_is_no_objects_fault_and_is_not_asked_about_each() {
    let house = House::new().await;
    let keys = house.make_garbage(5).await;
    let blob = Arc::new(FaultyBlob::failing(Arc::clone(&house.blob), 0));
    let garbage = Garbage::new(Arc::clone(&house.store), Arc::clone(&blob) as _, &Options::default());
    blob.go_away();
    for outage in 1..=3 {
        let error = garbage.sweep_once().await.unwrap_err();
        assert!(matches!(error, Error::Blob(BlobError::Unavailable { .. })), "{error}");
        assert_eq!(blob.deletes(), outage);
    }
    // Nothing was put off meanwhile.
    assert_eq!(house.store.garbage(99).await.unwrap(), keys);
    blob.come_back();
    assert_eq!(garbage.sweep_once().await.unwrap(), Swept { done: 5, more: false });
    assert_eq!(house.objects().await, []);
}

#[tokio::test]
async fn a_deletion_that_hangs_holds_up_no_others_for_long() {
    let house = House::new().await;
    let keys = house.make_garbage(4).await;
    let blob = Arc::new(FaultyBlob::failing(Arc::clone(&house.blob), 0));
    blob.hang_deletes_of(keys[..2].to_vec());
    let options = Options { deletion_timeout: Options::LEAST_DELETION_TIMEOUT, ..Options::default() };
    let garbage = Garbage::new(Arc::clone(&house.store), Arc::clone(&blob) as _, &options);
    assert_eq!(garbage.sweep_once().await.unwrap(), Swept { done: 2, more: false });
    assert_eq!(blob.deletes(), 4);
    // What hung is put off.
    assert_eq!(garbage.sweep_once().await.unwrap(), NOTHING);
    let mut left = keys[..2].to_vec();
    left.sort();
    assert_eq!(house.objects().await, left);
    blob.hang_deletes_of([]);
    house.clock.advance(backoff::garbage_delay(1));
    assert_eq!(garbage.sweep_once().await.unwrap(), Swept { done: 2, more: false });
}

/// More than a sweep waits for: it is not for hours that nothing else is deleted.
#[tokio::test]
async fn many_deletions_that_hang_are_left_for_others_after_a_few_time_outs() {
    const HANGING: usize = 90;
    let house = House::new().await;
    let keys = house.make_garbage(HANGING + 1).await;
    let blob = Arc::new(FaultyBlob::failing(Arc::clone(&house.blob), 0));
    blob.hang_deletes_of(keys[..HANGING].to_vec());
    let options = Options { deletion_timeout: Options::LEAST_DELETION_TIMEOUT, ..Options::default() };
    let garbage = Garbage::new(Arc::clone(&house.store), Arc::clone(&blob) as _, &options);
    let error = garbage.sweep_once().await.unwrap_err();
    assert!(matches!(error, Error::Blob(BlobError::Unavailable { .. })), "{error}");
    let tried = blob.deletes();
    assert!((16..80).contains(&tried), "{tried} were tried");
    for _ in 0..5 {
        if let Ok(swept) = garbage.sweep_once().await {
            assert_eq!(swept, Swept { done: 1, more: false });
            break;
        }
    }
    assert_eq!(house.objects().await.len(), HANGING);
    assert_eq!(garbage.sweep_once().await.unwrap(), NOTHING);
}

/// What is found anew by each walk does not keep the walks from what lies behind it.
#[tokio::test]
async fn a_walk_goes_on_behind_objects_whose_deletion_hangs() {
    const HANGING: usize = 90;
    let house = House::new().await;
    let keys: Vec<BlobKey> = (0..HANGING).map(|n| format!("v1/default/{n:03}").parse().unwrap()).collect();
    let last: BlobKey = "v1/default/last".parse().unwrap();
    let tried: BlobKey = "probe/0123456789abcdef".parse().unwrap();
    for key in keys.iter().chain([&last, &tried]) {
        house.put_at(key).await;
    }
    let options = Options { deletion_timeout: Options::LEAST_DELETION_TIMEOUT, ..Options::default() };
    house.clock.advance(options.orphan_age);
    let blob = Arc::new(FaultyBlob::failing(Arc::clone(&house.blob), 0));
    blob.hang_deletes_of(keys.clone());
    let orphans = Orphans::new(Arc::clone(&house.store), Arc::clone(&blob) as _, &options);
    assert!(orphans.sweep_once().await.is_err(), "none could be deleted");
    let first = blob.deletes();
    assert!((16..80).contains(&first), "{first} were tried");
    assert_eq!(house.objects().await.len(), HANGING + 2);
    // An outage meanwhile does not make it forget where it was.
    blob.go_away();
    assert!(orphans.sweep_once().await.is_err());
    blob.come_back();
    for _ in 0..5 {
        if house.objects().await.len() > HANGING {
            assert!(orphans.sweep_once().await.is_err(), "some could not be deleted");
        }
    }
    assert_eq!(blob.deletes() as usize, HANGING + 2);
    assert_eq!(house.objects().await, keys);
    // The next one begins anew.
    blob.hang_deletes_of([]);
    assert_eq!(orphans.sweep_once().await.unwrap(), Swept { done: HANGING, more: false });
}

#[tokio::test]
async fn the_walk_over_all_objects_ends_where_the_media_store_does() {
    let house = House::new().await;
    for name in ["v1/default/a", "v1/default/b", "v1/default/c"] {
        house.put_at(&name.parse().unwrap()).await;
    }
    let options = Options { deletion_timeout: Options::LEAST_DELETION_TIMEOUT, ..Options::default() };
    house.clock.advance(options.orphan_age);
    let blob = Arc::new(FaultyBlob::failing(Arc::clone(&house.blob), 0));
    let orphans = Orphans::new(Arc::clone(&house.store), Arc::clone(&blob) as _, &options);
    blob.go_away();
    assert!(orphans.sweep_once().await.is_err());
    assert_eq!(blob.deletes(), 0);
    blob.come_back();
    blob.hang_deletes_of(["v1/default/a".parse().unwrap()]);
    assert!(orphans.sweep_once().await.is_err(), "one could not be deleted");
    assert_eq!(house.objects().await, ["v1/default/a".parse().unwrap()]);
    blob.hang_deletes_of([]);
    assert_eq!(orphans.sweep_once().await.unwrap(), Swept { done: 1, more: false });
}

#[tokio::test]
async fn inputs_go_with_their_job_and_those_whose_job_never_came_by_themselves() {
    let house = House::new().await;
    let garbage = house.garbage(&Options::default());
    let orphans = house.orphans(&Options::default());
    let mut keys = Vec::new();
    for comes in [true, false] {
        let new = house.new_job();
        let key = BlobKey::input(&house.tenant, new.id, 0, "c0ffee");
        house.store.expect_inputs(new.id, std::slice::from_ref(&key), LIFE).await.unwrap();
        house.put_at(&key).await;
        if comes {
            house.store.create(NewJob { inputs: vec![key.clone()], ..new }).await.unwrap();
        }
        keys.push(key);
    }
    assert_eq!(garbage.sweep_once().await.unwrap(), NOTHING);
    house.clock.advance(Options::default().orphan_age);
    assert_eq!(orphans.sweep_once().await.unwrap(), NOTHING);
    assert_eq!(garbage.sweep_once().await.unwrap(), Swept { done: 1, more: false });
    assert_eq!(house.objects().await, [keys.remove(0)]);
    let result = house.complete_one().await;
    assert_eq!(garbage.sweep_once().await.unwrap(), Swept { done: 1, more: false });
    assert_eq!(house.objects().await, [result.key]);
}

#[tokio::test]
async fn what_a_zombie_put_after_everything_was_over_is_found_once_it_is_old() {
    let house = House::new().await;
    let options = Options { batch: 1, ..Options::default() };
    let orphans = house.orphans(&options);
    house.submit().await;
    let kept = house.claim().await.lease;
    let object = house.put(&kept).await;
    let done = Outcome::Completed { object: object.clone(), previews: Vec::new(), report: RunReport::default() };
    house.store.finish(&kept, done).await.unwrap();
    for _ in 0..2 {
        house.submit().await;
        let zombie = house.claim().await.lease;
        house.store.delete(&house.tenant, zombie.job).await.unwrap();
        house.clock.advance(house.policy.lease);
        assert_eq!(house.garbage(&options).sweep_once().await.unwrap().done, 1);
        house.put(&zombie).await;
    }
    // And what a worker has left that died while it tried the store out.
    let tried: BlobKey = "probe/0123456789abcdef".parse().unwrap();
    house.put_at(&tried).await;
    assert_eq!(orphans.sweep_once().await.unwrap(), NOTHING);
    house.clock.advance(options.orphan_age);
    assert_eq!(orphans.sweep_once().await.unwrap(), Swept { done: 3, more: false });
    assert_eq!(house.objects().await, [object.key]);
}

#[tokio::test]
async fn a_checkpoint_is_kept_until_another_takes_its_place_or_its_job_ends() {
    let house = House::new().await;
    let (garbage, orphans) = (house.garbage(&Options::default()), house.orphans(&Options::default()));
    house.submit().await;
    let lease = house.claim().await.lease;
    let first = house.keep_checkpoint(&lease, 1).await;
    assert_eq!(garbage.sweep_once().await.unwrap(), NOTHING);
    assert_eq!(house.objects().await, [first]);
    let second = house.keep_checkpoint(&lease, 2).await;
    assert_eq!(garbage.sweep_once().await.unwrap(), Swept { done: 1, more: false });
    assert_eq!(house.objects().await, std::slice::from_ref(&second));

    house.clock.advance(house.policy.lease);
    let reaper = house.reaper(&Options::default());
    assert_eq!(reaper.sweep_once().await.unwrap().done, 1);
    house.clock.advance(Options::default().orphan_age);
    // The lost claim's result was expected and never came; its last state is where the next attempt goes on.
    garbage.sweep_once().await.unwrap();
    assert_eq!(orphans.sweep_once().await.unwrap(), NOTHING);
    assert_eq!(house.objects().await, [second]);
    let object = house.complete_one().await;
    assert_eq!(garbage.sweep_once().await.unwrap(), Swept { done: 1, more: false });
    assert_eq!(house.objects().await, [object.key]);
}

#[tokio::test]
async fn a_checkpoint_that_a_zombie_stored_is_found_once_it_is_old() {
    let house = House::new().await;
    let options = Options::default();
    house.submit().await;
    let zombie = house.claim().await.lease;
    house.store.expect_checkpoint(&zombie, 1).await.unwrap();
    house.store.delete(&house.tenant, zombie.job).await.unwrap();
    house.clock.advance(house.policy.lease);
    house.garbage(&options).sweep_once().await.unwrap();
    house.put_checkpoint(&zombie, 1).await;
    let orphans = house.orphans(&options);
    assert_eq!(orphans.sweep_once().await.unwrap(), NOTHING);
    house.clock.advance(options.orphan_age);
    assert_eq!(orphans.sweep_once().await.unwrap(), Swept { done: 1, more: false });
    assert_eq!(house.objects().await, []);
}
