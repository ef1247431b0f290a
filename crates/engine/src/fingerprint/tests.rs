//! What a fingerprint names, and what it leaves out.

use super::LIBRARIES;
use super::transcript::Transcript;

#[test]
fn the_named_versions_are_those_of_the_lock_file() {
    let lock = include_str!("../../../../Cargo.lock");
    for (library, version) in LIBRARIES {
        let packages =
            lock.split("[[package]]").filter(|package| package.contains(&format!("\nname = \"{library}\"\n")));
        let versions: Vec<&str> =
            packages.filter_map(|package| package.split("version = \"").nth(1)?.split('"').next()).collect();
        assert_eq!(versions, [version], "{library}");
    }
}

#[test]
fn names_and_values_do_not_run_into_each_other() {
    let digest = |pairs: &[(&str, &str)]| {
        let mut transcript = Transcript::begin("title");
        for (name, value) in pairs {
            transcript.say(name, value);
        }
        transcript.end()
    };
    assert_eq!(digest(&[("a", "b")]).len(), 64);
    assert_eq!(digest(&[("a", "b")]), digest(&[("a", "b")]));
    for other in [&[("ab", "")][..], &[("", "ab")], &[("a", "b"), ("", "")], &[]] {
        assert_ne!(digest(&[("a", "b")]), digest(other), "{other:?}");
    }
}
