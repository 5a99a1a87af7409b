//! Runs all targets with the stored inputs and with a few new random inputs.

use cap::Cap;
use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};
use std::panic;
use std::path::Path;

#[global_allocator]
static MEMORY: Cap<std::alloc::System> = Cap::new(std::alloc::System, usize::MAX);

/// Number of random inputs for each target.
const STORIES: u64 = 40;

#[test]
fn no_story_ends_badly() {
    for (name, target) in mpdccp_fuzz::TARGETS {
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
        let mut files: Vec<_> =
            std::fs::read_dir(&corpus).unwrap().flatten().map(|file| file.path()).collect();
        files.sort();
        assert!(files.len() > 5, "the corpus {} has too few inputs", corpus.display());
        let kept = files.iter().map(|file| (file.display().to_string(), std::fs::read(file).unwrap()));
        let made_up = (0..STORIES).map(|seed| {
            let mut bytes = vec![0; mpdccp_fuzz::MAX_LEN / 4];
            ChaCha8Rng::seed_from_u64(seed).fill_bytes(&mut bytes);
            (format!("{name}, seed {seed}"), bytes)
        });
        for (what, bytes) in kept.chain(made_up) {
            MEMORY.set_limit(MEMORY.allocated() + mpdccp_fuzz::MAX_MEMORY).unwrap();
            let ended = panic::catch_unwind(|| target(&bytes));
            MEMORY.set_limit(usize::MAX).unwrap();
            assert!(ended.is_ok(), "{what}");
        }
    }
}
