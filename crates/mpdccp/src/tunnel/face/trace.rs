//! `--trace FILE` writes the state of all paths as CSV every 10 ms. The columns are a stable interface;
//! docs/formats.md describes them.

use mpdccp_proto::{PathRow, PathStatus, SessionStatus};
use mpdccp_units::{Duration, Rate, Time};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

const COLUMNS: &str = "t_s,session,path,phase,cwnd_bytes,inflight_bytes,pacing_mbps,delivery_mbps,btlbw_mbps,srtt_ms,\
                       min_rtt_ms,lost,queue_packets,queue_ms,app_limited";
const EVERY: Duration = Duration::from_millis(10);

pub(crate) struct Trace {
    file: BufWriter<File>,
    pub(crate) next: Time,
}

impl Trace {
    pub(crate) fn create(path: &Path, now: Time) -> io::Result<Trace> {
        let mut file = BufWriter::new(File::create(path)?);
        writeln!(file, "{COLUMNS}")?;
        Ok(Trace { file, next: now })
    }

    /// Sets the time of the next sample, skipping times that have already passed.
    pub(crate) fn advance(&mut self, now: Time) {
        while self.next <= now {
            self.next += EVERY;
        }
    }

    /// Writes the rows of one session. `name` returns the name of a path. `rows` holds the paths' congestion
    /// windows in bytes.
    pub(crate) fn sample(
        &mut self,
        now: Time,
        session: &str,
        status: &SessionStatus,
        rows: &[PathRow],
        name: impl Fn(&PathStatus) -> String,
    ) -> io::Result<()> {
        for path in &status.paths {
            let Some(tx) = &path.tx else { continue };
            let ms =
                |d: Option<Duration>| d.map(|d| format!("{:.3}", d.as_secs_f64() * 1e3)).unwrap_or_default();
            let mbps = |r: Option<Rate>| r.map(|r| format!("{:.3}", r.mbps())).unwrap_or_default();
            let cwnd = rows.iter().find(|row| row.id == path.id).map_or(0, |row| row.cwnd);
            writeln!(
                self.file,
                "{:.6},{},{},{},{cwnd},{},{},{:.3},{},{},{},{},{},{},{}",
                now.as_secs_f64(),
                field(session),
                field(&name(path)),
                tx.phase,
                tx.inflight.bytes,
                mbps(tx.pacing),
                tx.delivery_rate.mbps(),
                mbps(tx.bottleneck),
                ms(tx.rtt.srtt()),
                ms(tx.rtt.min().map(|(rtt, _)| rtt)),
                tx.lost.packets,
                status.queue.packets,
                ms(Some(status.queue.oldest)),
                u8::from(tx.app_limited),
            )?;
        }
        Ok(())
    }
}

/// Quotes a name that contains a comma or a quote (RFC 4180).
fn field(name: &str) -> String {
    if name.contains([',', '"']) { format!("\"{}\"", name.replace('"', "\"\"")) } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_field() {
        let fields = ["dsl", "dsl, home", "the \"fast\" line"].map(field);
        assert_eq!(fields, ["dsl", "\"dsl, home\"", "\"the \"\"fast\"\" line\""]);
    }
}
