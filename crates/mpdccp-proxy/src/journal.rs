//! Journal of the connections that a host may believe to be open, one line each, kept in a file. If this end
//! of the tunnel is killed, it reads at its next start which connections died.

use crate::segment::Tuple;

#[derive(Debug, Default)]
pub(crate) struct Journal {
    /// Number of lines that were ever used.
    pub(crate) lines: u32,
    /// Lines that were used and are free now.
    pub(crate) free: Vec<u32>,
    pub(crate) changes: Vec<(u32, Option<Tuple>)>,
}

impl Journal {
    /// Assigns a line to a connection.
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
