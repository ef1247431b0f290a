//! Tables of plain text.

use std::fmt;

/// Rows of texts below a head, each column as wide as its widest text.
#[derive(Debug)]
pub(crate) struct Table<const N: usize> {
    rows: Vec<[String; N]>,
}

impl<const N: usize> Table<N> {
    /// Makes a table with a head.
    pub(crate) fn new(head: [&str; N]) -> Self {
        Self { rows: vec![head.map(str::to_owned)] }
    }

    /// Adds a row.
    pub(crate) fn add(&mut self, row: [String; N]) {
        self.rows.push(row);
    }
}

impl<const N: usize> fmt::Display for Table<N> {
    /// Writes the lines, without a line break after the last one and without spaces at their ends.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = |column: usize| self.rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
        let widths: [usize; N] = std::array::from_fn(width);
        for (index, row) in self.rows.iter().enumerate() {
            let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
            let line = cells.collect::<Vec<_>>().join("  ");
            let end = if index + 1 < self.rows.len() { "\n" } else { "" };
            write!(f, "{}{end}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_text() {
        let mut table = Table::new(["ID", "STATE", "NOTE"]);
        table.add(["a long one", "queued", ""].map(str::to_owned));
        table.add(["b", "running", "µ 1/2"].map(str::to_owned));
        let expected = "ID          STATE    NOTE\na long one  queued\nb           running  µ 1/2";
        assert_eq!(table.to_string(), expected);
    }
}
