//! The journal is a file with one line for each connection that a host may believe to be open. If this end of
//! the tunnel is killed, its next run learns from the journal which connections died.

use crate::segment::Tuple;

#[derive(Debug, Default)]
pub(crate) struct Journal {
    /// Number of lines that the file has.
    pub(crate) lines: u32,
    /// Lines of the file that are currently free.
    pub(crate) free: Vec<u32>,
    pub(crate) changes: Vec<(u32, Option<Tuple>)>,
}

impl Journal {
    /// Writes a connection into a free line, and returns that line.
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
