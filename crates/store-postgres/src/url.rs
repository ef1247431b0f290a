//! The address of the database, which may hold a password.

use std::fmt;
use std::str::FromStr;

use sqlx::postgres::PgConnectOptions;

/// Why a text is not the URL of a Postgres database. It does not repeat the text, which may hold a password.
#[derive(Debug, thiserror::Error)]
pub enum InvalidUrl {
    /// It begins with something else.
    #[error("the database URL must begin with postgres:// or postgresql://")]
    Scheme,
    /// It cannot be read.
    #[error("the database URL cannot be read")]
    Malformed(#[source] sqlx::Error),
    /// It does not say which database.
    #[error("the database URL must name a database: postgres://role@host/database")]
    NoDatabase,
}

/// The URL of a Postgres database: `postgres://role:password@host:port/database?sslmode=verify-full`.
///
/// Neither `Debug` nor `Display` shows the password. TLS is as `sslmode` says: `disable`, `allow`, `prefer` (the default),
/// `require`, `verify-ca`, `verify-full`; the roots are those of the system, or the file named by `sslrootcert`.
#[derive(Clone)]
pub struct DatabaseUrl(PgConnectOptions);

impl DatabaseUrl {
    pub(crate) fn options(&self) -> PgConnectOptions {
        self.0.clone()
    }

    /// Returns host, port and database, for messages.
    pub fn address(&self) -> String {
        let database = self.0.get_database().unwrap_or_default();
        match self.0.get_socket() {
            Some(socket) => format!("{}:{}/{database}", socket.display(), self.0.get_port()),
            None => format!("{}:{}/{database}", self.0.get_host(), self.0.get_port()),
        }
    }

    pub(crate) fn role(&self) -> &str {
        self.0.get_username()
    }
}

impl FromStr for DatabaseUrl {
    type Err = InvalidUrl;

    fn from_str(text: &str) -> Result<Self, InvalidUrl> {
        if !["postgres://", "postgresql://"].iter().any(|scheme| text.starts_with(scheme)) {
            return Err(InvalidUrl::Scheme);
        }
        let options: PgConnectOptions = text.parse().map_err(InvalidUrl::Malformed)?;
        if options.get_database().is_none_or(str::is_empty) {
            return Err(InvalidUrl::NoDatabase);
        }
        Ok(Self(options))
    }
}

impl fmt::Display for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "postgres://{}@{}", self.role(), self.address())
    }
}

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DatabaseUrl({self})")
    }
}

#[cfg(test)]
mod tests {
    use clapboard_jobs::Causes;

    use super::*;

    #[test]
    fn no_form_of_a_url_shows_its_password() {
        let url: DatabaseUrl = "postgres://clap:hunter2@db.example:5433/jobs?sslmode=require".parse().unwrap();
        assert_eq!(url.to_string(), "postgres://clap@db.example:5433/jobs");
        assert_eq!(format!("{url:?}"), "DatabaseUrl(postgres://clap@db.example:5433/jobs)");
        assert_eq!(url.address(), "db.example:5433/jobs");
    }

    #[test]
    fn a_wrong_url_is_refused_without_repeating_it() {
        for (wrong, why) in [
            ("mysql://clap:hunter2@db/jobs", "must begin with postgres://"),
            ("hunter2", "must begin with postgres://"),
            ("postgres://clap:hunter2@db:port/jobs", "cannot be read"),
            ("postgres://clap:hunter2@db/jobs?sslmode=sometimes", "cannot be read"),
            ("postgres://clap:hunter2@db", "must name a database"),
            ("postgres://clap:hunter2@db/", "must name a database"),
        ] {
            let refused = wrong.parse::<DatabaseUrl>().unwrap_err();
            let told = Causes(&refused).to_string();
            assert!(told.contains(why), "{wrong}: {told}");
            assert!(!told.contains("hunter2") && !format!("{refused:?}").contains("hunter2"), "{told}");
        }
    }

    #[test]
    fn a_socket_folder_can_stand_in_for_a_host() {
        let url: DatabaseUrl = "postgres://clap@%2Frun%2Fpostgresql/jobs".parse().unwrap();
        assert_eq!(url.address(), "/run/postgresql:5432/jobs");
    }
}
