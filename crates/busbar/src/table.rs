//! Tables for people: columns as wide as what is in them, whatever alphabet that is in, and colours
//! where a terminal shows them.

use anstyle::{AnsiColor, Style};
use busbar_control::text::is_plain;
use comfy_table::presets::NOTHING;
use comfy_table::{Cell, CellAlignment, ContentArrangement};
use serde::Serialize;
use std::io::{IsTerminal, Write};

/// A column.
pub struct Column {
    title: &'static str,
    align: CellAlignment,
}

impl Column {
    /// Of words.
    pub fn text(title: &'static str) -> Self {
        let align = CellAlignment::Left;
        Self { title, align }
    }

    /// Of numbers.
    pub fn number(title: &'static str) -> Self {
        let align = CellAlignment::Right;
        Self { title, align }
    }
}

/// What a row is shown as.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Mood {
    /// Nothing special.
    Plain,
    /// Something that can be had.
    Good,
    /// Something that others have.
    Taken,
    /// Something that is not as it should be.
    Bad,
}

impl Mood {
    fn style(self) -> Style {
        let color = match self {
            Self::Plain => return Style::new(),
            Self::Good => AnsiColor::Green,
            Self::Taken => AnsiColor::Yellow,
            Self::Bad => AnsiColor::Red,
        };
        color.on_default()
    }
}

/// What a server says as one line, which no terminal obeys.
pub fn plain(text: &str) -> String {
    text.replace(|c| !is_plain(c), " ")
}

/// A table.
pub struct Table {
    rows: comfy_table::Table,
    moods: Vec<Mood>,
    /// Lines that follow so many rows.
    notes: Vec<(usize, String)>,
}

impl Table {
    /// One with these columns.
    pub fn new(columns: &[Column]) -> Self {
        let mut rows = comfy_table::Table::new();
        rows.load_style(NOTHING);
        rows.set_content_arrangement(ContentArrangement::Disabled);
        rows.set_header(columns.iter().map(|c| c.title));
        for (i, c) in columns.iter().enumerate() {
            if let Some(column) = rows.column_mut(i) {
                column.set_padding((0, 2));
                column.set_cell_alignment(c.align);
            }
        }
        Self {
            rows,
            moods: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>, mood: Mood) {
        let cells: Vec<_> = cells.into_iter().map(|c| Cell::new(plain(&c))).collect();
        self.rows.add_row(cells);
        self.moods.push(mood);
    }

    /// Adds a line that is in no column.
    pub fn note(&mut self, line: String) {
        self.notes.push((self.moods.len(), plain(&line)));
    }

    /// The whole, with colours.
    pub fn text(&self) -> String {
        let mut out = String::new();
        let mut notes = self.notes.iter().peekable();
        let heading = Style::new().bold();
        let styles = std::iter::once(heading).chain(self.moods.iter().map(|m| m.style()));
        for (n, (line, style)) in self.rows.lines().zip(styles).enumerate() {
            out += &format!("{style}{}{style:#}\n", line.trim_end());
            while let Some((_, note)) = notes.next_if(|(at, _)| *at <= n) {
                out += note;
                out.push('\n');
            }
        }
        out
    }
}

/// Prints something with colours, or without where nobody would see them or `NO_COLOR` is set.
pub fn print(text: &str) {
    let mut out = anstream::stdout();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// A document, as all commands print it.
pub fn json(document: &impl Serialize) -> String {
    serde_json::to_string_pretty(document).unwrap_or_default() + "\n"
}

/// Prints a document.
pub fn print_json(document: &impl Serialize) {
    print(&json(document));
}

/// Prints something in the place of what was printed before; where that cannot be, after it.
pub fn print_again(text: &str) {
    /// To the upper left corner, and clear what is behind.
    const AGAIN: &str = "\x1b[H\x1b[2J";
    match std::io::stdout().is_terminal() {
        true => print(&[AGAIN, text].concat()),
        false => print(text),
    }
}

/// How long something has lasted: `45s`, `12m30s`, `3h07m`, `2d04h`.
pub fn age(seconds: u64) -> String {
    let (m, h, d) = (seconds / 60, seconds / 3600, seconds / 86400);
    match (d, h, m) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, m) => format!("{m}m{:02}s", seconds % 60),
        (0, h, m) => format!("{h}h{:02}m", m % 60),
        (d, h, _) => format!("{d}d{:02}h", h % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(t: &Table) -> String {
        anstream::adapter::strip_str(&t.text()).to_string()
    }

    #[test]
    fn columns_are_as_wide_as_what_is_in_them() {
        let columns = [
            Column::text("NAME"),
            Column::number("#"),
            Column::text("REST"),
        ];
        let mut t = Table::new(&columns);
        assert_eq!(shown(&t), "NAME  #  REST\n");
        let row = |a: &str, b: &str, c: &str| [a, b, c].map(String::from);
        t.row(
            row("a name that is longer than any other", "7", "x"),
            Mood::Good,
        );
        t.note("    a\u{1b}[2J\nnote".into());
        // Two columns of a terminal each, and none.
        t.row(row("\u{52a0}\u{901f}\u{5668}", "12345", "y"), Mood::Bad);
        t.row(row("e\u{301}\n", "1", "z"), Mood::Plain);
        let wanted = "\
NAME                                      #  REST
a name that is longer than any other      7  x
    a [2J note
\u{52a0}\u{901f}\u{5668}                                12345  y
e\u{301}                                         1  z
";
        assert_eq!(shown(&t), wanted);
        let green = AnsiColor::Green.on_default();
        assert!(t.text().contains(&format!("{green}a name")));
        assert!(t.text().contains(&format!("{green:#}\n")));
    }

    #[test]
    fn ages_are_short() {
        let ages = [0, 59, 60, 750, 3600, 11_220, 86_400, 187_200].map(age);
        let wanted = [
            "0s", "59s", "1m00s", "12m30s", "1h00m", "3h07m", "1d00h", "2d04h",
        ];
        assert_eq!(ages, wanted);
    }
}
