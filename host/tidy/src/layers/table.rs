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
    /// Its crates may hold unsafe code.
    pub may_hold_unsafe: bool,
}

impl Table {
    /// Reads the table out of a document. Returns what is wrong if there is none, or a row of it is not whole.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut lines = text.lines().skip_while(|line| !line.starts_with(HEAD));
        lines.next().ok_or_else(|| format!("has no table that begins with `{HEAD}`"))?;
        let mut rows: Vec<Row> = Vec::new();
        for line in lines.skip(1).take_while(|line| line.starts_with('|')) {
            let row = Row::parse(line, rows.last()).map_err(|missing| format!("`{line}` names no {missing}"))?;
            rows.push(row);
        }
        Ok(Self { rows })
    }

    /// Returns the row of a crate: the one that names its folder, otherwise the one of its group.
    pub fn row_of(&self, folder: &Path) -> Option<usize> {
        let named = self.rows.iter().position(|row| Path::new(&row.folder) == folder);
        named.or_else(|| self.rows.iter().position(|row| row.is_group_of(folder)))
    }

    /// Returns whether the crate of a file may hold unsafe code; a file of no crate may not.
    pub fn may_hold_unsafe(&self, file: &Path) -> bool {
        file.ancestors().find_map(|folder| self.row_of(folder)).is_some_and(|row| self.rows[row].may_hold_unsafe)
    }
}

impl Row {
    /// Reads a line of the table; if its first cell is empty, its layer is the one of the row before. Returns what it lacks.
    fn parse(line: &str, before: Option<&Self>) -> Result<Self, &'static str> {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let cell = |number: usize| cells.get(number).copied().unwrap_or_default();
        let layer = match cell(1) {
            "" => before.ok_or("layer")?.layer.clone(),
            layer => layer.to_owned(),
        };
        let folder = cell(2).strip_prefix('`').and_then(|folder| folder.strip_suffix('`')).ok_or("folder")?.to_owned();
        let may_hold_unsafe = match cell(4) {
            "yes" => true,
            "no" => false,
            _ => return Err("`yes` or `no` for unsafe code"),
        };
        Ok(Self { layer, folder, may_hold_unsafe })
    }

    /// Returns whether the row stands for a group, and the folder is one of it.
    fn is_group_of(&self, folder: &Path) -> bool {
        self.folder.strip_suffix("/*").is_some_and(|group| folder.parent() == Some(Path::new(group)))
    }
}
