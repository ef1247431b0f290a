//! The checkpoint: whether everything that a worker loads is there.

use std::path::Path;

use clapboard_engine::checkpoint::inspect;
use clapboard_jobs::Causes;

use super::finding::Finding;

const ABOUT: &str = "weights";

/// Looks at configs, headers and the tokenizer, as a worker does at its start; reads no weights.
pub(super) fn examine(checkpoint: Option<&Path>) -> Finding {
    let Some(folder) = checkpoint else {
        return Finding::ok(ABOUT, "not examined: --checkpoint is not given, which only workers cannot do without");
    };
    let inspection = match inspect(folder) {
        Ok(inspection) => inspection,
        Err(error) => return Finding::fail(ABOUT, Causes(&error).to_string()),
    };
    let shown = folder.display();
    if !inspection.is_usable() {
        return Finding::fail(
            ABOUT,
            format!("{shown} cannot be served: `clapboard checkpoint inspect {shown}` says what is missing or wrong"),
        );
    }
    let partitions: Vec<_> = inspection.partitions.iter().map(ToString::to_string).collect();
    let gib = inspection.components.iter().map(|component| component.bytes).sum::<u64>() as f64 / f64::from(1 << 30);
    Finding::ok(ABOUT, format!("{shown} serves {}; {gib:.1} GiB of it are read", partitions.join(" and ")))
}

#[cfg(test)]
mod tests {
    use clapboard_engine::checkpoint::Layout;
    use clapboard_engine::checkpoint::tiny::write_tiny;

    use super::super::finding::Verdict;
    use super::*;

    #[test]
    fn a_checkpoint_is_whole_or_it_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let checkpoint = folder.path().join("tiny");
        assert_eq!(examine(None).verdict, Verdict::Ok);
        assert_eq!(examine(Some(&checkpoint)).verdict, Verdict::Fail);
        write_tiny(0, Layout::Diffusers, &checkpoint).unwrap();
        let whole = examine(Some(&checkpoint));
        assert!(whole.verdict == Verdict::Ok && whole.to_string().contains("serves fl2va and ref2va"), "{whole}");
        std::fs::remove_dir_all(checkpoint.join("audio_vae")).unwrap();
        let broken = examine(Some(&checkpoint));
        assert!(broken.verdict == Verdict::Fail && broken.to_string().contains("checkpoint inspect"), "{broken}");
    }
}
