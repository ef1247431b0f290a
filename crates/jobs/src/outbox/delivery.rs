//! One notice for one receiver, and how telling it went.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use uuid::Uuid;

use super::{EndpointId, Notice, Secret};
use crate::id::{InvalidId, JobId, Tenant};
use crate::state::UnknownName;
use crate::time::Micros;
use crate::trace::TraceParent;

/// Names a delivery, the same at every try, so that a receiver can tell repeats: shown as `evt_` and 32 hex digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeliveryId(pub Uuid);

impl DeliveryId {
    /// What every id begins with.
    pub const PREFIX: &'static str = "evt_";
}

impl fmt::Display for DeliveryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", Self::PREFIX, self.0.simple())
    }
}

impl FromStr for DeliveryId {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        crate::id::prefixed(text, Self::PREFIX, "a delivery id (evt_ and 32 hex digits)").map(Self)
    }
}

/// For whom a delivery is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Receiver {
    /// One of the tenant's endpoints.
    Endpoint(EndpointId),
    /// The URL that came with the job. All of a tenant's jobs count as one receiver.
    Job {
        /// The URL.
        url: String,
    },
}

/// Where a delivery stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DeliveryState {
    /// It waits for its next try, or is being tried.
    Pending,
    /// The receiver has it.
    Delivered,
    /// It is not tried any more.
    Dead,
}

impl DeliveryState {
    /// Every state.
    pub const ALL: [Self; 3] = [Self::Pending, Self::Delivered, Self::Dead];

    /// Returns the name in stores and on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Delivered => "delivered",
            Self::Dead => "dead",
        }
    }
}

impl FromStr for DeliveryState {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        Self::ALL.into_iter().find(|state| state.as_str() == text).ok_or_else(|| UnknownName {
            kind: "delivery state",
            text: text.to_owned(),
            expected: "pending, delivered, dead",
        })
    }
}

/// One notice for one receiver: there is exactly one for each end of a job and each receiver that wanted to hear of it then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// Its id.
    pub id: DeliveryId,
    /// Whose.
    pub tenant: Tenant,
    /// For whom.
    pub receiver: Receiver,
    /// About which job; of a test, about one that never was.
    pub job: JobId,
    /// What is told.
    pub notice: Notice,
    /// When the job ended, or the test was asked for.
    pub created_at: Micros,
    /// Where it stands.
    pub state: DeliveryState,
    /// How often it was tried.
    pub tries: u32,
    /// When it is tried next, while it is pending.
    pub next_try_at: Option<Micros>,
    /// When the receiver had it.
    pub delivered_at: Option<Micros>,
    /// The HTTP status of the last try, if there was an answer.
    pub last_status: Option<u16>,
    /// Why the last try failed, in words for its tenant.
    pub last_error: Option<String>,
    /// It is a test: it tells of no job, and is tried once.
    pub is_test: bool,
}

/// Which deliveries to list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryQuery {
    /// The last of the page before.
    pub after: Option<DeliveryId>,
    /// How many at most.
    pub limit: u32,
    /// Only those of this endpoint.
    pub endpoint: Option<EndpointId>,
    /// Only those in this state.
    pub state: Option<DeliveryState>,
}

impl Default for DeliveryQuery {
    fn default() -> Self {
        Self { after: None, limit: 20, endpoint: None, state: None }
    }
}

/// A page of a list of deliveries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryPage {
    /// The deliveries.
    pub deliveries: Vec<Delivery>,
    /// More follow after the last of them.
    pub has_more: bool,
}

/// A delivery that is to be tried now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Due {
    /// Its id.
    pub id: DeliveryId,
    /// Whose.
    pub tenant: Tenant,
    /// Where to send to.
    pub url: String,
    /// What signs: the present secret, and beside it the old one while it is kept; at least one.
    pub secrets: Vec<Secret>,
    /// About which job.
    pub job: JobId,
    /// What is told.
    pub notice: Notice,
    /// When the job ended.
    pub created_at: Micros,
    /// Which try this is, from 1.
    pub number: u32,
    /// The trace that the job belongs to.
    pub trace: Option<TraceParent>,
    /// It is a test, of which somebody waits to hear: this try is its only one.
    pub is_test: bool,
}

/// How a try went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tried {
    /// The receiver has it.
    Delivered {
        /// The status of its answer.
        status: u16,
    },
    /// It failed.
    Failed {
        /// The status of the answer, if there was one.
        status: Option<u16>,
        /// Why, in words for the tenant: no address and no answer's text.
        error: String,
        /// How long the receiver asks not to be tried again.
        after: Option<Duration>,
    },
    /// It was not tried after all, for want of something on this machine: that does not count.
    Postponed {
        /// How long until it is tried.
        after: Duration,
    },
    /// The receiver says that it is no more.
    Gone {
        /// The status of its answer.
        status: u16,
    },
}
