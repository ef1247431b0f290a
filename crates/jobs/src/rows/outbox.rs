//! Endpoints and deliveries.

use uuid::Uuid;

use super::{names, number, parse, unreadable};
use crate::id::JobId;
use crate::outbox::{Attempted, Delivery, DeliveryId, DeliveryState, Due, Endpoint, EndpointId, Receiver, Secret};
use crate::store::StoreError;
use crate::time::Micros;

/// One row of `endpoints`, column by column.
#[derive(Debug)]
#[expect(missing_docs, reason = "each column is described by the field of Endpoint that it becomes")]
pub struct EndpointRow {
    pub id: Uuid,
    pub tenant: String,
    pub name: String,
    pub url: String,
    /// A list of names in JSON.
    pub notices: String,
    pub secret: String,
    /// None where its time is over.
    pub old_secret: Option<String>,
    pub old_secret_until: Option<i64>,
    pub created_at: i64,
    pub updated_at: i64,
    pub disabled_at: Option<i64>,
    pub disabled_why: Option<String>,
}

impl TryFrom<EndpointRow> for Endpoint {
    type Error = StoreError;

    fn try_from(row: EndpointRow) -> Result<Self, StoreError> {
        let old_secret: Option<Secret> = row.old_secret.map(|text| parse("old_secret", &text)).transpose()?;
        Ok(Self {
            id: EndpointId(row.id),
            tenant: parse("tenant", &row.tenant)?,
            name: row.name,
            url: row.url,
            notices: names("notices", &row.notices)?,
            secret: parse("secret", &row.secret)?,
            old_secret: old_secret.zip(row.old_secret_until.map(Micros)),
            created_at: Micros(row.created_at),
            updated_at: Micros(row.updated_at),
            disabled: row.disabled_at.map(Micros).zip(row.disabled_why),
        })
    }
}

/// One row of `deliveries`, column by column.
#[derive(Debug)]
#[expect(missing_docs, reason = "each column is described by the field of Delivery that it becomes")]
pub struct DeliveryRow {
    pub id: Uuid,
    pub tenant: String,
    pub endpoint: Option<Uuid>,
    /// Exactly where there is no endpoint.
    pub url: Option<String>,
    pub job_id: Uuid,
    pub notice: String,
    pub created_at: i64,
    pub state: String,
    pub tries: i64,
    pub next_try_at: Option<i64>,
    /// When it was delivered or given up.
    pub settled_at: Option<i64>,
    pub last_status: Option<i64>,
    pub last_error: Option<String>,
    pub is_test: bool,
}

impl TryFrom<DeliveryRow> for Delivery {
    type Error = StoreError;

    fn try_from(row: DeliveryRow) -> Result<Self, StoreError> {
        let receiver = match row.endpoint {
            Some(endpoint) => Receiver::Endpoint(EndpointId(endpoint)),
            None => Receiver::Job { url: row.url.unwrap_or_default() },
        };
        let state: DeliveryState = parse("state", &row.state)?;
        Ok(Self {
            id: DeliveryId(row.id),
            tenant: parse("tenant", &row.tenant)?,
            receiver,
            job: JobId::from_uuid(row.job_id),
            notice: parse("notice", &row.notice)?,
            created_at: Micros(row.created_at),
            state,
            tries: number("tries", row.tries)?,
            next_try_at: row.next_try_at.map(Micros),
            delivered_at: row.settled_at.filter(|_| state == DeliveryState::Delivered).map(Micros),
            last_status: row.last_status.map(|status| number("last_status", status)).transpose()?,
            last_error: row.last_error,
            is_test: row.is_test,
        })
    }
}

/// Says that a column holds nothing.
#[derive(Debug, thiserror::Error)]
#[error("there is none")]
struct Missing;

/// A delivery that was taken, and what its receiver's row says.
#[derive(Debug)]
#[expect(missing_docs, reason = "each column is described by the field of Due that it becomes")]
pub struct DueRow {
    pub id: Uuid,
    pub tenant: String,
    /// None where its receiver is not there.
    pub url: Option<String>,
    /// None where nothing signs.
    pub secret: Option<String>,
    /// None where its time is over.
    pub old_secret: Option<String>,
    pub job_id: Uuid,
    pub notice: String,
    pub created_at: i64,
    /// This one included.
    pub tries: i64,
    pub is_test: bool,
    pub trace: Option<String>,
}

impl DueRow {
    /// Tells whether the delivery had been tried as often as it may be before it was taken now.
    pub fn is_used_up(&self) -> bool {
        let before = u32::try_from(self.tries - 1).unwrap_or_default();
        Attempted { state: DeliveryState::Pending, tries: before, is_held: false, is_test: self.is_test }.is_used_up()
    }
}

impl TryFrom<DueRow> for Due {
    type Error = StoreError;

    fn try_from(row: DueRow) -> Result<Self, StoreError> {
        let secret = row.secret.ok_or(Missing).map_err(unreadable("secret"))?;
        let mut secrets: Vec<Secret> = vec![parse("secret", &secret)?];
        if let Some(old) = &row.old_secret {
            secrets.push(parse("old_secret", old)?);
        }
        Ok(Self {
            id: DeliveryId(row.id),
            tenant: parse("tenant", &row.tenant)?,
            url: row.url.ok_or(Missing).map_err(unreadable("url"))?,
            secrets,
            job: JobId::from_uuid(row.job_id),
            notice: parse("notice", &row.notice)?,
            created_at: Micros(row.created_at),
            number: number("tries", row.tries)?,
            trace: row.trace.map(|text| parse("trace", &text)).transpose()?,
            is_test: row.is_test,
        })
    }
}
