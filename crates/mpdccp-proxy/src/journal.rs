//! Which connections hosts may have, a line each, so that a file can keep it: an end that is killed knows at its next start what died with it.

use crate::segment::Tuple;

#[derive(Debug, Default)]
pub(crate) struct Journal {
    /// Lines ever used.
    pub(crate) lines: u32,
    /// Those of them that are empty.
    pub(crate) free: Vec<u32>,
    pub(crate) changes: Vec<(u32, Option<Tuple>)>,
}

impl Journal {
    /// The line that a connection gets.
    pub(crate) fn write(&mut self, tuple: Tuple) -> u32 {
        let line = self.free.pop().unwrap_or_else(|| {
            self.lines += 1;
            self.lines - 1
        });
        self.changes.push((line, Some(tuple)));
        line
    }

    pub(crate) fn erase(&mut self, line: Option<u32>) {
        if let Some(line) = line {
            self.free.push(line);
            self.changes.push((line, None));
        }
    }
}
