//! How much memory the process has held.

use std::fs;

/// Returns the most memory that this process has held at once, in bytes; 0 where the system does not say.
///
/// The kernel's own high-water mark of the resident set (`VmHWM`), which a new program starts from zero; the one that
/// `getrusage` gives would be inherited from whoever started it.
pub fn peak_memory_bytes() -> u64 {
    fs::read_to_string("/proc/self/status").ok().and_then(|status| high_water_mark(&status)).unwrap_or(0)
}

fn high_water_mark(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
    Some(kibibytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_is_read_in_bytes() {
        let status = "Name:\tx\nVmPeak:\t  999 kB\nVmHWM:\t    1536 kB\nVmRSS:\t 12 kB\n";
        assert_eq!(high_water_mark(status), Some(1536 * 1024));
        assert_eq!(high_water_mark("Name:\tx\n"), None);
    }

    #[test]
    fn memory_that_was_touched_is_in_the_mark() {
        let before = peak_memory_bytes();
        let touched = vec![1u8; 64 << 20];
        assert!(peak_memory_bytes() >= before.max(touched.len() as u64));
    }
}
