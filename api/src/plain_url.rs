//! URLs that lead where a person who reads them takes them to lead.

use url::Url;

/// Tells whether the text of a URL names its host right after `scheme://`, and nothing before the host.
///
/// A parser of URLs takes more, as browsers do: `https:///x` and `https:x` are `https://x/` to it, and a `\` is a `/`, so that
/// `https://a.example\@b.example/` leads to the first of the two. Blanks and control characters it leaves out.
pub(crate) fn is_plain(text: &str, url: &Url) -> bool {
    let scheme = url.scheme();
    let is_same = |begin: &str| begin.eq_ignore_ascii_case(scheme);
    if !text.get(..scheme.len()).is_some_and(is_same) {
        return false;
    }
    let Some(rest) = text[scheme.len()..].strip_prefix("://") else {
        return false;
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let is_left_out = |c: char| c.is_whitespace() || c.is_control();
    !authority.is_empty() && !authority.contains(['\\', '@']) && !authority.contains(is_left_out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_stands_where_people_look_for_it() {
        for (text, plain) in [
            ("https://a.example", true),
            ("HTTPS://A.example:8443/x?y=@1#z", true),
            ("http://[::1]/x@y\\z", true),
            ("https:///x", false),
            ("https://\t/evil.example/1.png", false),
            ("https://a.example/a b", true),
            ("https:example.com", false),
            ("https:example.com/?u=https://b.example/", false),
            ("https:/\\a.example/", false),
            ("https:\\\\a.example/", false),
            ("https://a.example\\@127.0.0.1/", false),
            ("https://a.example\\x", false),
            ("https://@a.example/", false),
            ("https://:@a.example/", false),
            ("https://me@a.example/", false),
            (" https://a.example/", false),
            ("ht\ntps://a.example/", false),
        ] {
            assert_eq!(is_plain(text, &Url::parse(text).unwrap()), plain, "{text:?}");
        }
    }
}
