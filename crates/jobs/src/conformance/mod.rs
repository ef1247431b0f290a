//! What every implementation of a trait of this crate must do, as stories.
//!
//! Each check is a function over the trait alone; the macros [`store_conformance!`](crate::store_conformance),
//! [`dispatch_conformance!`](crate::dispatch_conformance) and [`blob_conformance!`](crate::blob_conformance) turn every check
//! into a test of the crate that calls them, so that no implementation can forget one. The calling crate needs tokio's
//! `macros` and `rt-multi-thread`.
//!
//! A failed check panics, as a test does.

pub mod blob;
pub mod dispatch;
pub mod store;

/// Makes a test of every check of the [`Store`](crate::Store) suite.
///
/// Its argument is a future that makes a new [`StoreHarness`](crate::conformance::store::StoreHarness) over an empty store.
#[macro_export]
macro_rules! store_conformance {
    ($harness:expr) => {
        $crate::store_conformance! { @tests $harness;
            life {
                a_new_job_waits,
                a_job_runs_from_its_claim_to_its_stored_result,
                a_failed_job_tells_why,
                a_claimed_job_is_queued_for_its_client_until_it_begins,
                percent_only_grows_and_stays_below_a_hundred,
                beginning_twice_keeps_the_first_moment,
                a_job_that_completes_has_begun,
                an_id_is_used_once,
                a_spec_of_a_newer_program_is_kept_unread,
                another_tenant_sees_nothing,
                a_job_is_found_by_its_id_alone,
                what_a_client_says_is_told_back,
            }
            claims {
                one_of_two_claimants_gets_the_job,
                many_claimants_share_many_jobs_without_doubling_one,
                a_job_is_not_claimed_by_the_wrong_weights,
                a_job_of_an_unknown_spec_version_is_not_claimed,
                a_job_too_large_for_a_worker_is_left_to_others,
                the_jobs_of_one_tenant_are_claimed_in_order,
                a_late_tenant_does_not_wait_behind_a_backlog,
                a_worker_with_two_sets_of_weights_takes_the_lower_rank,
                hints_are_due_jobs_in_order,
                a_job_takes_its_turn_again_after_its_backoff,
                the_place_in_the_queue_counts_those_before,
                a_place_beyond_the_farthest_is_not_told,
            }
            fencing {
                an_ended_lease_is_reclaimed_and_its_holder_is_fenced,
                every_verb_refuses_a_stale_fence,
                every_verb_refuses_a_wrong_token,
                a_finished_job_is_finished_once,
                a_beat_keeps_the_job,
                a_result_under_a_foreign_key_is_refused,
            }
            endings {
                a_job_whose_workers_are_lost_fails_with_its_history_kept,
                a_drain_refunds_the_attempt_but_not_the_fence,
                an_unwell_worker_refunds_the_attempt_and_the_job_waits,
                a_worker_lost_before_it_began_refunds_the_attempt,
                a_job_is_spared_only_so_often,
                a_retry_waits_for_its_backoff,
                a_retry_waits_as_long_as_its_worker_asks,
                the_last_retry_fails_with_its_error,
                a_restart_takes_back_the_jobs_of_dead_workers_only,
                the_next_moment_is_the_first_that_matters,
            }
            cancels {
                a_waiting_job_is_cancelled_at_once,
                a_running_job_is_cancelled_by_its_worker,
                an_accepted_cancel_wins_over_a_late_result,
                an_accepted_cancel_wins_over_every_other_end,
                a_cancelled_job_whose_worker_is_lost_does_not_run_again,
                an_ended_job_is_not_cancelled,
                of_many_cancels_one_ends_the_job,
                cancelling_a_job_that_is_not_there_finds_nothing,
            }
            deletes {
                a_job_is_deleted_in_every_state,
                a_late_result_does_not_bring_a_deleted_job_back,
                deleting_twice_finds_nothing,
            }
            objects {
                a_result_is_named_and_kept,
                what_a_failed_attempt_may_have_written_is_garbage,
                what_a_lost_worker_may_still_write_is_collected_later,
                what_a_worker_may_still_be_putting_is_collected_after_its_lease,
                garbage_that_cannot_be_deleted_is_put_off,
                garbage_that_two_sweeps_put_off_at_once_waits_once,
                a_deleted_result_is_garbage,
                an_object_of_nobody_is_found,
            }
            inputs {
                inputs_whose_job_never_comes_are_garbage_in_the_end,
                inputs_are_kept_while_their_job_can_run,
                inputs_go_with_the_end_of_their_job,
                a_failed_job_keeps_its_inputs,
                inputs_are_deleted_with_their_job,
                a_job_whose_inputs_are_gone_is_not_made,
                a_create_with_inputs_that_is_sent_again_is_a_duplicate,
                a_full_queue_leaves_inputs_as_they_are,
                inputs_that_are_given_up_go_at_once,
                what_a_job_has_or_had_is_not_given_up,
                of_a_create_and_its_abandonment_one_wins,
            }
            checkpoints {
                a_checkpoint_is_expected_and_then_kept,
                a_replaced_checkpoint_is_garbage,
                a_checkpoint_outlives_its_claim,
                a_checkpoint_ends_with_its_job,
                a_checkpoint_is_deleted_with_its_job,
                a_state_that_was_expected_and_not_kept_is_garbage,
                a_lost_claim_keeps_no_checkpoint,
                a_checkpoint_under_a_foreign_key_is_refused,
                a_checkpoint_that_was_not_expected_is_refused,
            }
            tenants {
                a_tenant_runs_no_more_jobs_than_its_cap,
                many_claimants_keep_the_cap,
                many_claimants_of_one_hint_each_keep_the_cap,
                a_capped_tenant_does_not_stop_others,
                a_tenant_that_may_run_nothing_is_passed_over,
                a_full_queue_takes_no_more_jobs,
                many_creators_keep_the_limit_of_a_queue,
                room_in_a_queue_is_told_as_a_create_would,
                what_a_tenant_may_have_is_changed_at_once,
                what_tenants_may_have_is_listed,
            }
            keys {
                a_key_grants_what_it_was_made_for,
                a_revoked_key_grants_nothing,
                no_key_is_added_twice,
                keys_are_listed_as_they_were_made,
            }
            order {
                a_weight_is_a_share,
                a_low_job_waits_for_others_but_not_for_ever,
                a_low_job_does_not_push_back_later_ones,
                hints_hold_the_head_of_every_tenant_that_may_run,
                hints_come_in_the_order_of_the_claims,
            }
            capacity {
                rows_are_compared_exactly,
                a_large_job_does_not_hide_smaller_ones,
                a_long_backlog_of_large_jobs_hides_no_smaller_one,
                each_class_is_a_queue_of_its_own,
                an_unlimited_worker_holds_whatever_there_is,
            }
            usage {
                completed_jobs_are_summed_by_tenant,
                attempts_that_came_to_nothing_are_counted_in_seconds,
                deleted_jobs_stay_counted,
            }
            outbox {
                every_end_is_told_once_to_every_endpoint,
                what_is_no_end_is_not_told,
                an_endpoint_hears_only_of_later_ends,
                a_job_that_ends_again_is_told_again,
                deliveries_outlive_their_job,
            }
            endpoints {
                an_endpoint_is_read_back,
                an_endpoint_is_changed_field_by_field,
                a_disabled_endpoint_hears_nothing,
                an_endpoint_hears_of_what_it_subscribes_to,
                an_old_secret_signs_until_its_time,
                a_deleted_endpoint_is_told_nothing_more,
                a_tenant_has_only_so_many_endpoints,
                an_endpoint_tells_when_it_was_changed,
                a_tenant_has_one_secret_for_its_jobs,
            }
            deliveries {
                a_delivery_is_tried_until_it_is_delivered,
                a_receiver_may_ask_for_time,
                a_receiver_is_left_alone_with_its_backlog,
                tenants_take_turns,
                a_postponed_try_does_not_count,
                tries_of_which_nothing_is_heard_come_to_an_end,
                a_lost_try_changes_nothing_unless_it_delivered,
                an_endpoint_that_nothing_reaches_is_disabled,
                an_endpoint_that_is_gone_is_disabled,
                a_receiver_is_given_only_so_many_at_once,
                deliveries_are_taken_in_their_order,
                the_url_of_a_job_hears_of_its_end,
                deliveries_are_listed_page_by_page,
                the_deliveries_of_a_job_come_in_the_order_of_its_ends,
                settled_deliveries_are_forgotten,
            }
            samples {
                an_endpoint_is_tried_with_a_test,
                a_test_is_tried_once_and_disables_nothing,
            }
            replays {
                a_delivery_is_replayed,
                a_delivery_to_a_disabled_endpoint_is_not_replayed,
            }
            submissions {
                a_named_request_makes_one_job,
                a_name_outlives_its_job,
                a_counted_try_finds_its_job,
                a_first_try_makes_a_job_of_its_own,
                a_first_try_that_was_overtaken_finds_the_job,
                of_many_requests_at_once_one_makes_the_job,
                of_one_create_sent_many_times_one_makes_the_job,
                a_refused_request_is_not_remembered,
                requests_are_forgotten_after_their_time,
            }
            previews {
                pictures_become_the_jobs_with_its_result,
                a_picture_that_was_not_made_is_garbage,
                pictures_of_a_failed_claim_are_garbage,
                pictures_go_with_the_result,
                a_foreign_picture_is_refused,
            }
            pauses {
                a_paused_partition_hands_out_nothing,
                a_pause_leaves_running_jobs_and_other_partitions_alone,
            }
            backlog {
                what_waits_and_runs_is_counted,
                what_is_to_be_told_is_counted,
            }
            fleet {
                a_worker_is_known_by_its_card,
                a_silent_worker_is_not_listed,
                a_worker_is_asked_to_drain,
                a_busy_worker_leaves_jobs_to_an_idle_one,
                a_busy_worker_takes_what_no_idle_one_can_run,
                a_silent_worker_keeps_no_job_from_others,
                an_idle_worker_that_drains_keeps_no_job_from_others,
                an_idle_worker_that_cannot_read_a_job_keeps_it_from_nobody,
                hints_are_of_jobs_that_some_worker_can_read,
            }
            deadlines {
                a_job_that_did_not_begin_in_time_fails,
                a_claim_alone_does_not_meet_the_deadline,
                a_job_does_not_begin_after_its_deadline,
                an_overdue_job_is_given_out_to_nobody,
                a_cancel_wins_over_a_deadline,
                a_job_that_has_begun_once_is_exempt,
                overdue_jobs_are_failed_up_to_the_limit,
                the_next_moment_may_be_a_deadline,
            }
            retention {
                by_default_everything_is_kept,
                a_result_is_given_up_and_its_job_stays,
                results_are_given_up_up_to_the_limit,
                an_ended_job_is_deleted_after_its_time,
                a_list_goes_on_after_a_deleted_job_only_so_long,
                deleted_jobs_are_forgotten_up_to_the_limit,
                a_worker_not_heard_of_for_a_day_is_forgotten,
                the_next_moment_may_be_the_end_of_a_result_or_a_record,
                a_job_may_shorten_the_life_of_its_result,
            }
            retries {
                a_failed_job_runs_again_with_all_its_attempts,
                only_a_failed_job_is_retried,
                a_job_that_failed_by_its_deadline_is_retried_without_one,
            }
            model {
                random_lives_agree_with_the_model,
            }
            lists {
                pages_cover_all_jobs_once_within_one_microsecond,
                a_list_goes_on_after_a_deleted_job,
                a_list_does_not_go_on_after_a_job_that_never_was,
                a_list_shows_one_status,
                a_list_of_all_mixes_the_statuses,
                a_list_of_none_says_whether_there_are_some,
                a_list_is_narrowed_by_model_and_metadata,
            }
        }
    };
    (@tests $harness:expr; $($group:ident { $($check:ident),* $(,)? })*) => {
        $(
            mod $group {
                use super::*;
                $(
                    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                    async fn $check() {
                        let harness = $harness.await;
                        $crate::conformance::store::$group::$check(&harness).await;
                    }
                )*
            }
        )*
    };
}

/// Makes a test of every check of the [`Dispatch`](crate::Dispatch) suite.
///
/// Its argument is a future of an `Arc<dyn Dispatch>` without hints, whose queues keep
/// [`WINDOW`](crate::conformance::dispatch::WINDOW) of them, and of something to keep alive beside it.
#[macro_export]
macro_rules! dispatch_conformance {
    ($factory:expr) => {
        $crate::dispatch_conformance! { @tests $factory;
            the_lowest_rank_comes_first,
            only_what_was_not_there_is_counted,
            equal_ranks_come_in_the_order_of_their_ids,
            a_hint_pushed_again_is_not_doubled,
            the_rank_pushed_last_counts,
            queues_are_apart,
            the_lowest_rank_of_all_queues_is_served,
            a_full_window_drops_the_highest_ranks,
            a_waiting_pop_hears_a_push,
            a_pop_that_waits_for_nothing_ends,
            a_dropped_pop_takes_nothing,
            every_hint_goes_to_one_of_many,
        }
    };
    (@tests $factory:expr; $($check:ident),* $(,)?) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $check() {
                let (dispatch, _kept) = $factory.await;
                $crate::conformance::dispatch::$check(dispatch).await;
            }
        )*
    };
}

/// Makes a test of every check of the [`Blob`](crate::Blob) suite.
///
/// Its argument is a future of an `Arc<dyn Blob>` without objects and of something to keep alive beside it. Where the
/// server behind it cannot do all that the suite asks for, `lacks:` says so, as a slice of
/// [`Lack`](crate::conformance::blob::Lack).
#[macro_export]
macro_rules! blob_conformance {
    ($factory:expr) => {
        $crate::blob_conformance! { $factory, lacks: &[] }
    };
    ($factory:expr, lacks: $lacks:expr) => {
        $crate::blob_conformance! { @tests $factory, $lacks;
            what_was_put_is_read_back,
            an_empty_object_is_an_object,
            a_large_object_is_whole,
            a_large_put_is_heard_to_move,
            every_legal_key_names_an_object,
            a_range_is_those_bytes,
            a_range_that_is_not_there_is_refused,
            a_put_tried_again_is_a_success,
            a_put_never_overwrites,
            a_put_of_a_missing_file_leaves_nothing,
            an_interrupted_put_leaves_all_or_nothing,
            of_many_puts_one_wins,
            a_missing_object_is_none,
            deleting_is_idempotent,
            a_deleted_key_can_be_put_again,
            an_object_can_be_read_to_its_end_while_it_is_deleted,
            a_list_is_ordered_and_goes_on,
            a_list_is_as_long_as_it_must_be,
            a_link_gives_the_object_under_its_name,
        }
    };
    (@tests $factory:expr, $lacks:expr; $($check:ident),* $(,)?) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $check() {
                let (blob, _kept) = $factory.await;
                let harness = $crate::conformance::blob::BlobHarness { blob, lacks: $lacks };
                $crate::conformance::blob::$check(&harness).await;
            }
        )*
    };
}
