//! What the host has left.

use std::fs;
use std::path::Path;

/// Returns the bytes that this process may take of the host's memory beside what is in use; none where the system does not
/// tell.
pub(crate) fn available() -> Option<u64> {
    let machine = read("/proc/meminfo").and_then(|text| field(&text, "MemAvailable:")).map(|kibibytes| kibibytes << 10);
    [machine, group()].into_iter().flatten().min()
}

/// Returns the bytes of this process that no file is behind.
pub(crate) fn private() -> Option<u64> {
    read("/proc/self/status").and_then(|text| field(&text, "RssAnon:")).map(|kibibytes| kibibytes << 10)
}

/// What the control group leaves, as containers are bounded: its limit without what it cannot give up.
fn group() -> Option<u64> {
    let groups = read("/proc/self/cgroup")?;
    let path = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let folder = Path::new("/sys/fs/cgroup").join(path);
    let limit: u64 = read(folder.join("memory.max"))?.trim().parse().ok()?;
    let taken = field(&read(folder.join("memory.stat"))?, "anon")?;
    Some(limit.saturating_sub(taken))
}

fn read(path: impl AsRef<Path>) -> Option<String> {
    fs::read_to_string(path).ok()
}

/// Finds the number behind a name that begins a line.
fn field(text: &str, name: &str) -> Option<u64> {
    let of_line = |line: &str| {
        let mut words = line.split_whitespace();
        (words.next()? == name).then(|| words.next()?.parse().ok())?
    };
    text.lines().find_map(of_line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_found_by_its_whole_name() {
        let text = "MemTotal:       24689864 kB\nMemFree:  11 kB\nMemAvailable:   23000000 kB\n";
        assert_eq!(field(text, "MemAvailable:"), Some(23_000_000));
        assert_eq!(field(text, "MemAvail"), None);
        assert_eq!(field("anon_thp 5\nanon 7\n", "anon"), Some(7));
        assert_eq!(field("anon none\n", "anon"), None);
    }

    #[test]
    fn this_machine_has_memory_left() {
        assert!(available().is_some_and(|bytes| bytes > 1 << 20));
    }
}
