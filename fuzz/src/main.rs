//! Searches for inputs that make a target fail. This program works with a stable toolchain. It is built and
//! started by `fuzz/run`; see CONTRIBUTING.md.

mod coverage;
mod mutate;

use cap::Cap;
use coverage::Coverage;
use mutate::Dice;
use rustix::time::{ClockId, clock_gettime};
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Limits the memory of a run. An allocation beyond the limit ends the process. The file `NAME-current` in
/// `crashes` then contains the input.
#[global_allocator]
static MEMORY: Cap<std::alloc::System> = Cap::new(std::alloc::System, usize::MAX);

const USAGE: &str = "usage: mpdccp-fuzz TARGET SECONDS | TARGET minimise [MOST] | TARGET FILE...";
const REPORT: Duration = Duration::from_secs(30);

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let target = args.first().and_then(|name| mpdccp_fuzz::TARGETS.iter().find(|(known, _)| known == name));
    let (Some((name, target)), Some(what)) = (target, args.get(1)) else {
        let names: Vec<_> = mpdccp_fuzz::TARGETS.iter().map(|(name, _)| *name).collect();
        eprintln!("{USAGE}\ntargets: {}", names.join(", "));
        return ExitCode::from(2);
    };
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
    let ended = match (what.as_str(), what.parse()) {
        (_, Ok(seconds)) => search(name, *target, &corpus, Duration::from_secs(seconds)),
        ("minimise", _) => {
            minimise(*target, &corpus, args.get(2).and_then(|n| n.parse().ok()).unwrap_or(usize::MAX))
        }
        _ => args[1..].iter().try_for_each(|file| replay(*target, file)),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn replay(target: mpdccp_fuzz::Target, file: &str) -> std::io::Result<()> {
    let bytes = fs::read(file)?;
    target(&bytes);
    println!("{file}: used at most {} KiB of memory", MEMORY.max_allocated() >> 10);
    Ok(())
}

fn read(corpus: &Path) -> std::io::Result<Vec<(PathBuf, Vec<u8>)>> {
    fs::create_dir_all(corpus)?;
    let mut files: Vec<PathBuf> = fs::read_dir(corpus)?.flatten().map(|entry| entry.path()).collect();
    files.sort();
    files.into_iter().map(|file| fs::read(&file).map(|bytes| (file, bytes))).collect()
}

/// Returns the CPU time of this process. Wall-clock time would be useless, because a busy machine may do few
/// runs in hours.
fn worked() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// Searches until the process has used this much CPU time.
fn search(name: &str, target: mpdccp_fuzz::Target, corpus: &Path, time: Duration) -> std::io::Result<()> {
    let crashes = Path::new(env!("CARGO_MANIFEST_DIR")).join("crashes");
    fs::create_dir_all(&crashes)?;
    let path = crashes.join(format!("{name}-current"));
    let current = fs::File::create(&path)?;
    let mut stories: Vec<Vec<u8>> = read(corpus)?.into_iter().map(|(_, bytes)| bytes).collect();
    let mut coverage = Coverage::default();
    for bytes in &stories {
        coverage
            .of(|| target(bytes))
            .0
            .map_err(|_| std::io::Error::other("the target fails for an input of the corpus"))?;
    }
    stories.push(Vec::new());
    let (begin, mut told) = (Instant::now(), Instant::now());
    let (mut runs, mut slowest) = (0u64, Duration::ZERO);
    let mut dice = Dice::new(u64::from(std::process::id()));
    while worked() < time {
        let bytes = dice.mutate(&stories);
        current.set_len(bytes.len() as u64)?;
        current.write_all_at(&bytes, 0)?;
        let _ = MEMORY.set_limit(MEMORY.allocated() + mpdccp_fuzz::MAX_MEMORY);
        let started = Instant::now();
        let (ended, new) = coverage.of(|| target(&bytes));
        slowest = slowest.max(started.elapsed());
        let _ = MEMORY.set_limit(usize::MAX);
        runs += 1;
        if ended.is_err() {
            let kept = crashes.join(format!("{name}-{runs}-{}", std::process::id()));
            fs::rename(&path, &kept)?;
            return Err(std::io::Error::other(format!("the target fails for the input {}", kept.display())));
        }
        if new {
            fs::write(corpus.join(format!("{:08x}", dice.number())), &bytes)?;
            stories.push(bytes);
        }
        if told.elapsed() > REPORT || worked() >= time {
            told = Instant::now();
            println!(
                "{name}: {:.0} s of CPU time in {:.0} s, {runs} runs, {} inputs in the corpus, coverage {}, slowest run {slowest:.0?}",
                worked().as_secs_f64(),
                begin.elapsed().as_secs_f64(),
                stories.len(),
                coverage.reached()
            );
        }
    }
    fs::remove_file(path)
}

/// Keeps the smallest inputs that together reach the entire coverage, but at most `most` inputs.
fn minimise(target: mpdccp_fuzz::Target, corpus: &Path, most: usize) -> std::io::Result<()> {
    let mut files = read(corpus)?;
    files.sort_by_key(|(_, bytes)| bytes.len());
    let mut gains: Vec<(usize, PathBuf)> = Vec::new();
    let mut coverage = Coverage::default();
    for (file, bytes) in files {
        let before = coverage.reached();
        let _ = coverage.of(|| target(&bytes));
        gains.push((coverage.reached() - before, file));
    }
    gains.sort_by_key(|(gain, _)| std::cmp::Reverse(*gain));
    for (at, (gain, file)) in gains.iter().enumerate() {
        if *gain == 0 || at >= most {
            fs::remove_file(file)?;
        }
    }
    println!(
        "kept {} of {} inputs",
        gains.iter().filter(|(gain, _)| *gain > 0).count().min(most),
        gains.len()
    );
    Ok(())
}
