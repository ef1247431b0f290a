//! The claim that lies beside a finished video, so that a restarted worker can still store it.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use clapboard_jobs::{ClaimToken, Fence, JobId, Lease, Micros, RunReport, Tenant, WorkerId};
use serde::{Deserialize, Serialize};

/// The file's name in the attempt's folder.
const NAME: &str = "lease.json";
/// The file while it is being written.
const PARTIAL_NAME: &str = ".lease.json.partial";
/// More than such a file ever has.
const MAX_BYTES: u64 = 64 * 1024;
/// The version of the format that this program writes, and the only one that it reads.
const VERSION: u32 = 1;

/// What is needed to end a claim whose video is finished. It holds the claim's secret, so only its owner can read it.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct KeptClaim {
    version: u32,
    job: JobId,
    tenant: Tenant,
    fence: Fence,
    token: ClaimToken,
    pub(crate) worker: WorkerId,
    /// The SHA-256 of the finished video.
    pub(crate) sha256: String,
    /// What the run said about itself, but for the upload.
    pub(crate) report: RunReport,
}

impl KeptClaim {
    /// Describes a claim whose video has this SHA-256.
    pub(crate) fn new(lease: &Lease, sha256: String, report: RunReport) -> Self {
        Self {
            version: VERSION,
            job: lease.job,
            tenant: lease.tenant.clone(),
            fence: lease.fence,
            token: lease.token,
            worker: lease.worker,
            sha256,
            report,
        }
    }

    /// Returns the claim's lease, of which nobody knows when it ends.
    pub(crate) fn lease(&self, duration: Duration) -> Lease {
        Lease {
            job: self.job,
            tenant: self.tenant.clone(),
            fence: self.fence,
            token: self.token,
            worker: self.worker,
            expires_at: Micros(0),
            duration,
        }
    }

    /// Writes the claim beside its video; once this has returned, it is there even after a loss of power. Blocks.
    ///
    /// Errors: what the system said.
    pub(crate) fn write(&self, folder: &Path) -> io::Result<()> {
        let partial = folder.join(PARTIAL_NAME);
        let mut file = File::options().write(true).create_new(true).mode(0o600).open(&partial)?;
        file.write_all(&serde_json::to_vec(self)?)?;
        file.sync_all()?;
        fs::rename(&partial, folder.join(NAME))?;
        File::open(folder)?.sync_all()
    }

    /// Reads the claim of a folder; none where there is none, or none that this program can use. Blocks.
    pub(crate) fn read(folder: &Path) -> Option<Self> {
        let file = File::open(folder.join(NAME)).ok()?;
        let mut bytes = Vec::new();
        file.take(MAX_BYTES).read_to_end(&mut bytes).ok()?;
        let claim: Self = serde_json::from_slice(&bytes).ok()?;
        (claim.version == VERSION).then_some(claim)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn claim() -> KeptClaim {
        let lease = Lease {
            job: JobId::new(),
            tenant: Tenant::default(),
            fence: Fence(3),
            token: ClaimToken::random(),
            worker: WorkerId::new(),
            expires_at: Micros(5),
            duration: Duration::from_secs(60),
        };
        KeptClaim::new(&lease, "00".repeat(32), RunReport { inference_s: 1.5, ..RunReport::default() })
    }

    #[test]
    fn a_claim_is_read_back_and_only_its_owner_can_read_it() {
        let folder = tempfile::tempdir().unwrap();
        let claim = claim();
        claim.write(folder.path()).unwrap();
        assert!(KeptClaim::read(folder.path()) == Some(claim));
        let names: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, [NAME]);
        let mode = fs::metadata(folder.path().join(NAME)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_claim_that_is_missing_damaged_or_of_another_version_is_none() {
        let folder = tempfile::tempdir().unwrap();
        assert!(KeptClaim::read(folder.path()).is_none());
        let newer = KeptClaim { version: VERSION + 1, ..claim() };
        for text in ["".to_owned(), "{".to_owned(), serde_json::to_string(&newer).unwrap()] {
            fs::write(folder.path().join(NAME), text).unwrap();
            assert!(KeptClaim::read(folder.path()).is_none());
        }
    }
}
