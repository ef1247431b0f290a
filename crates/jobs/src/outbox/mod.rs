//! What is to be told when a job ends: written in the transaction that ends it, delivered later, and tried again until the
//! receiver has it or it is given up.

mod attempted;
mod delivery;
mod endpoint;
mod notice;
pub mod reasons;
mod schedule;
mod secret;

use std::time::Duration;

use async_trait::async_trait;

pub use attempted::{Aftermath, Attempted, Effect, Fate};
pub use delivery::{Delivery, DeliveryId, DeliveryPage, DeliveryQuery, DeliveryState, Due, Receiver, Tried};
pub use endpoint::{Endpoint, EndpointChange, EndpointId, JobHook};
pub use notice::Notice;
pub use schedule::{MAX_TRIES, after_failure};
pub use secret::{InvalidSecret, Secret};

use crate::id::{JobId, Tenant};
use crate::store::StoreError;
use crate::time::Micros;

/// How many endpoints a tenant may have.
pub const MAX_ENDPOINTS: u32 = 32;

/// Keeps who wants to hear of a tenant's jobs, and what is still to be told.
///
/// Each verb is one transaction, as those of [`Store`](crate::Store) are.
#[async_trait]
pub trait Outbox: Send + Sync {
    /// Adds an endpoint, which hears of every job of its tenant that ends from now on; one of that id is replaced.
    ///
    /// Errors: [`StoreError::TooManyEndpoints`] when its tenant has [`MAX_ENDPOINTS`] others.
    async fn add_endpoint(&self, endpoint: &Endpoint) -> Result<(), StoreError>;

    /// Returns a tenant's endpoints in the order in which they were made.
    async fn endpoints(&self, tenant: &Tenant) -> Result<Vec<Endpoint>, StoreError>;

    /// Returns a tenant's endpoint; none when it has none of that id.
    async fn endpoint(&self, tenant: &Tenant, id: EndpointId) -> Result<Option<Endpoint>, StoreError>;

    /// Changes what is named of a tenant's endpoint and returns it as it is then; none when there is none.
    ///
    /// An endpoint that is enabled again hears of what ends from now on; what waited for it waits on. One that is enabled, or
    /// given another URL, is left alone no longer, where it had asked for that.
    async fn change_endpoint(
        &self,
        tenant: &Tenant,
        id: EndpointId,
        change: &EndpointChange,
    ) -> Result<Option<Endpoint>, StoreError>;

    /// Gives an endpoint a new secret, and lets the old one sign beside it for as long as `keep_old` says.
    async fn rotate_secret(
        &self,
        tenant: &Tenant,
        id: EndpointId,
        secret: &Secret,
        keep_old: Option<Duration>,
    ) -> Result<Option<Endpoint>, StoreError>;

    /// Deletes an endpoint with everything that was and is to be told to it, its history included, and tells whether there was
    /// one.
    ///
    /// What was told is deleted piece by piece, however much it is, by a transaction each. From the first of them on the
    /// endpoint hears of nothing more; where the verb fails later, it is disabled and can be deleted once more.
    async fn delete_endpoint(&self, tenant: &Tenant, id: EndpointId) -> Result<bool, StoreError>;

    /// Returns the secret that signs what is told to the URLs of a tenant's single jobs: `candidate` from now on, where the
    /// tenant has none yet.
    async fn hook_secret(&self, tenant: &Tenant, candidate: &Secret) -> Result<Secret, StoreError>;

    /// Adds a delivery that tells of no job, for a receiver to be tried with; none when the tenant has no such endpoint.
    ///
    /// It is tried once only, and whatever comes of that disables nothing. Like all else it waits while its endpoint is left
    /// alone.
    ///
    /// Errors: [`StoreError::TestPending`] while another one of that endpoint has not been tried.
    async fn test_endpoint(
        &self,
        tenant: &Tenant,
        id: EndpointId,
        notice: Notice,
    ) -> Result<Option<Delivery>, StoreError>;

    /// Returns the deliveries about a tenant's job, oldest first.
    async fn deliveries_of(&self, tenant: &Tenant, job: JobId) -> Result<Vec<Delivery>, StoreError>;

    /// Returns a tenant's deliveries, newest first, ties by id.
    ///
    /// Errors: [`StoreError::UnknownDelivery`] when it should go on after one that is not the tenant's.
    async fn deliveries(&self, tenant: &Tenant, query: &DeliveryQuery) -> Result<DeliveryPage, StoreError>;

    /// Lets a delivery that is no longer tried be tried again from the beginning, and returns it as it is then; one that
    /// waits for its next try is due at once. None when the tenant has no such delivery.
    ///
    /// Errors: [`StoreError::EndpointDisabled`] when it is for an endpoint that is, in the very moment of the replay; nothing is
    /// changed then.
    async fn replay(&self, tenant: &Tenant, id: DeliveryId) -> Result<Option<Delivery>, StoreError>;

    /// Takes up to `limit` deliveries that are due for as long as `hold`: nobody else is given them meanwhile, and who has not
    /// [told](Outbox::tried) how it went by then is taken to be dead.
    ///
    /// Of one [receiver](Receiver), no more are held at once than `per_receiver`, and of one tenant no more than `per_tenant`,
    /// so that a slow one holds up no other. Tenants take turns: whoever has the fewest held is next, and of a tenant's own
    /// the oldest. None of an endpoint's are among them that is disabled, or [left alone](Effect::Quiet) for now.
    ///
    /// A delivery whose tries are used up because nothing was heard of the last is given up instead, and so is one whose row
    /// cannot be read, with its id in the log; neither stands before others.
    async fn take_due(
        &self,
        limit: u32,
        per_receiver: u32,
        per_tenant: u32,
        hold: Duration,
    ) -> Result<Vec<Due>, StoreError>;

    /// Records how a try went, by the number that [`take_due`](Outbox::take_due) gave it; a try that was taken to be dead
    /// changes nothing, unless it has delivered.
    ///
    /// [`Attempted::after`] says what it leads to. A failure waits for as long as [`after_failure`] or `Tried::Failed` says,
    /// whichever is longer, and the last of [`MAX_TRIES`] gives the delivery up. An endpoint whose delivery is given up without
    /// any other having reached it since that one was made is disabled, and so is one that says it is [gone](Tried::Gone). One
    /// that asks for time, or is overloaded, is left alone with all that waits for it, until then or until something reaches
    /// it.
    async fn tried(&self, id: DeliveryId, number: u32, tried: &Tried) -> Result<(), StoreError>;

    /// Returns the first moment later than `after` at which a delivery falls due; none when nothing waits.
    async fn next_delivery(&self, after: Micros) -> Result<Option<Micros>, StoreError>;

    /// Deletes up to `limit` deliveries that were delivered or given up as long ago as the policy keeps records, and returns
    /// how many.
    async fn forget_deliveries(&self, limit: u32) -> Result<usize, StoreError>;
}
