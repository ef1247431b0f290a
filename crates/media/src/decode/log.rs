//! Lines of the log that ffmpeg writes with `-loglevel level`.

/// How serious a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    /// Something to know, such as the tags of a file.
    Info,
    /// A warning or an error.
    Remark,
}

/// A line in its parts: `[part of ffmpeg @ 0x5581] [level] text`, where up to two parts, or none, are named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LogLine<'a> {
    /// The innermost part of ffmpeg that speaks.
    pub(crate) speaker: Option<&'a str>,
    /// How serious it is.
    pub(crate) level: Level,
    /// What it says, which may be a file's own text.
    pub(crate) text: &'a str,
}

impl<'a> LogLine<'a> {
    /// Takes a line apart by its own beginning; `None` for what does not begin as one or is less than information.
    ///
    /// What a file says can hold all of this too, but follows what ffmpeg itself put before it.
    pub(crate) fn parse(line: &'a str) -> Option<Self> {
        let (mut rest, mut speaker) = (line, None);
        loop {
            let (bracket, text) = rest.strip_prefix('[')?.split_once("] ")?;
            if let Some((name, _)) = bracket.rsplit_once(" @ 0x") {
                (rest, speaker) = (text, Some(name));
                continue;
            }
            let level = match bracket {
                "info" => Level::Info,
                "warning" | "error" | "fatal" | "panic" => Level::Remark,
                _ => return None,
            };
            return Some(Self { speaker, level, text });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_level_is_that_of_the_line_itself() {
        let parts = |line| LogLine::parse(line).map(|line| (line.speaker, line.level, line.text));
        assert_eq!(parts("[error] Conversion failed!"), Some((None, Level::Remark, "Conversion failed!")));
        assert_eq!(parts("[h264 @ 0x5] [warning] odd"), Some((Some("h264"), Level::Remark, "odd")));
        assert_eq!(parts("[dec:0 @ 0x5] [h264 @ 0x6] [fatal] "), Some((Some("h264"), Level::Remark, "")));
        let title = "[info]     title           : [error] No space left on device";
        assert_eq!(parts(title), Some((None, Level::Info, &title[7..])));
        for other in
            ["    [error] later line of a tag", "x [error] y", "[verbose] y", "[error]", "[", "", "[x] [error] y"]
        {
            assert_eq!(parts(other), None, "{other}");
        }
    }
}
