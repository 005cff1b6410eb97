//! The table of layers, as `ARCHITECTURE.md` holds it: a row for each folder, in order.

use std::path::Path;

/// Beginning of the table's head.
const HEAD: &str = "| layer | folder |";

/// Rows in order: a later one may use an earlier one.
pub struct Table {
    pub rows: Vec<Row>,
}

/// A row: a folder of its layer.
pub struct Row {
    pub layer: String,
    /// One crate's folder, or `group/*` for each crate of a group that has no row of its own.
    pub folder: String,
}

impl Table {
    /// Reads the table out of a document. Returns what is wrong if there is none, or a row of it names no folder.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut lines = text.lines().skip_while(|line| !line.starts_with(HEAD));
        lines.next().ok_or_else(|| format!("has no table that begins with `{HEAD}`"))?;
        let mut rows: Vec<Row> = Vec::new();
        for line in lines.skip(1).take_while(|line| line.starts_with('|')) {
            let row = Row::parse(line, rows.last()).ok_or_else(|| format!("`{line}` names no layer or no folder"))?;
            rows.push(row);
        }
        Ok(Self { rows })
    }

    /// Returns the row of a crate: the one that names its folder, otherwise the one of its group.
    pub fn row_of(&self, folder: &Path) -> Option<usize> {
        let named = self.rows.iter().position(|row| Path::new(&row.folder) == folder);
        named.or_else(|| self.rows.iter().position(|row| row.is_group_of(folder)))
    }
}

impl Row {
    /// Reads a line of the table; if its first cell is empty, its layer is the one of the row before.
    fn parse(line: &str, before: Option<&Self>) -> Option<Self> {
        let mut cells = line.split('|').skip(1).map(str::trim);
        let layer = match cells.next()? {
            "" => before?.layer.clone(),
            layer => layer.to_owned(),
        };
        let folder = cells.next()?.strip_prefix('`')?.strip_suffix('`')?;
        Some(Self { layer, folder: folder.to_owned() })
    }

    /// Returns whether the row stands for a group, and the folder is one of it.
    fn is_group_of(&self, folder: &Path) -> bool {
        self.folder.strip_suffix("/*").is_some_and(|group| folder.parent() == Some(Path::new(group)))
    }
}
