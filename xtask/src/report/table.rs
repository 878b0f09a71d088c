//! What lies between views and formats: tables and the text around them.

/// A table: columns, rows, footnotes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// Stands above it; may be empty.
    pub title: String,
    /// The columns. The first `fixed` ones are repeated when a table is cut to fit a width.
    pub columns: Vec<Column>,
    /// How many columns name a row.
    pub fixed: usize,
    /// The rows.
    pub rows: Vec<TableRow>,
    /// Stand below it, each behind its mark.
    pub footnotes: Vec<(String, String)>,
}

/// A column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its heading.
    pub name: String,
    /// Where its cells stand.
    pub align: Align,
}

/// Where the text of a cell stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// For words.
    Left,
    /// For numbers.
    Right,
}

/// A row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TableRow {
    /// A heading inside the table.
    Section(String),
    /// One cell per column.
    Cells(Vec<Cell>),
}

/// A cell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    /// Its text.
    pub text: String,
    /// What it says, for formats that have colour.
    pub tone: Tone,
}

/// What a cell says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    /// Nothing in particular.
    #[default]
    Plain,
    /// Better than the base.
    Good,
    /// Worse than the base.
    Bad,
    /// Nothing to rely on.
    Faint,
}

/// Tables and paragraphs, in the order in which they are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// A paragraph; lines are broken to the width.
    Text(String),
    /// Lines that stay together, the later lines of each indented.
    List(Vec<String>),
    /// A table.
    Table(Table),
}

impl Column {
    /// A column of words.
    pub fn left(name: impl Into<String>) -> Self {
        Self { name: name.into(), align: Align::Left }
    }

    /// A column of numbers.
    pub fn right(name: impl Into<String>) -> Self {
        Self { name: name.into(), align: Align::Right }
    }
}

impl Cell {
    /// A cell without a tone.
    pub fn plain(text: impl Into<String>) -> Self {
        Self { text: text.into(), tone: Tone::Plain }
    }
}

impl Table {
    /// The same with the headings inside the table as a first column, for formats without such.
    pub fn with_sections_as_column(&self) -> Self {
        if !self.rows.iter().any(|row| matches!(row, TableRow::Section(_))) {
            return self.clone();
        }
        let mut section = String::new();
        let mut rows = Vec::new();
        for row in &self.rows {
            match row {
                TableRow::Section(name) => section.clone_from(name),
                TableRow::Cells(cells) => {
                    let mut all = vec![Cell::plain(section.clone())];
                    all.extend(cells.iter().map(|cell| Cell {
                        text: cell.text.trim_start().to_owned(),
                        tone: cell.tone,
                    }));
                    rows.push(TableRow::Cells(all));
                }
            }
        }
        let mut columns = vec![Column::left("section")];
        columns.extend(self.columns.iter().cloned());
        Self { columns, rows, fixed: self.fixed + 1, ..self.clone() }
    }

    /// The mark of a footnote with this text: a new one, or that of the same text before.
    pub fn footnote(&mut self, text: String) -> String {
        if let Some((mark, _)) = self.footnotes.iter().find(|(_, other)| *other == text) {
            return mark.clone();
        }
        let mark = format!("({})", self.footnotes.len() + 1);
        self.footnotes.push((mark.clone(), text));
        mark
    }
}
