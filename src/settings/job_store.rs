//! Whose jobs an operator means: those of a database, or those of a standalone service.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail, ensure};
use clapboard_jobs::{Policy, Store, SystemClock};
use clapboard_store_postgres::PostgresStore;
use clapboard_store_sqlite::SqliteStore;

use super::DatabaseArgs;
use crate::serve::jobs_of;

/// Where the jobs are.
#[derive(Debug, clap::Args)]
pub(crate) struct JobStoreArgs {
    #[command(flatten)]
    database: DatabaseArgs,
    /// The data directory of a standalone service, in place of a database; the service may be running
    #[arg(long, env = "CLAPBOARD_DATA", value_name = "DIR", help_heading = "Database")]
    data: Option<PathBuf>,
}

impl JobStoreArgs {
    /// Opens the job store.
    ///
    /// Errors: a sentence when none or two are named, or the one that is cannot be opened.
    pub(crate) async fn open(&self) -> anyhow::Result<Arc<dyn Store>> {
        // What these commands do goes by the policy that each job's row has kept.
        let policy = Policy::default();
        match (self.database.options()?, &self.data) {
            (Some(_), Some(_)) => {
                bail!("--database-url and --data are both given, or set in the environment: name one of them")
            }
            (None, None) => {
                bail!("say which service is meant: --database-url URL, or --data DIR of a standalone one")
            }
            (Some(database), None) => {
                let store = PostgresStore::connect(&database, policy).await;
                Ok(Arc::new(store.context("could not open the job store")?))
            }
            (None, Some(data)) => {
                let file = existing(data)?;
                let store = SqliteStore::open(&file, policy, Arc::new(SystemClock)).await;
                Ok(Arc::new(store.context("could not open the job store")?))
            }
        }
    }
}

/// Opening a store makes one where there is none, which nobody who looks at jobs wants.
fn existing(data: &Path) -> anyhow::Result<PathBuf> {
    let file = jobs_of(data);
    ensure!(file.is_file(), "{} is no data directory: there is no {}", data.display(), file.display());
    Ok(file)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        from: JobStoreArgs,
    }

    async fn refusal(arguments: &[&str]) -> String {
        let args = Cli::try_parse_from(["jobs"].iter().chain(arguments)).unwrap().from;
        args.open().await.map(|_| ()).map_err(|error| format!("{error:#}")).unwrap_err()
    }

    #[tokio::test]
    async fn one_store_is_named_and_exists() {
        assert!(refusal(&[]).await.starts_with("say which service is meant: --database-url URL, or --data DIR"));
        let both = refusal(&["--database-url", "postgres://u:hunter2@h/d", "--data", "d"]).await;
        assert!(both.starts_with("--database-url and --data are both given"), "{both}");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_str().unwrap();
        let refused = refusal(&["--data", path]).await;
        assert_eq!(refused, format!("{path} is no data directory: there is no {path}/jobs.db"));
        assert!(!folder.path().join("jobs.db").exists());
    }
}
