//! What sealing a record and agreeing on a key cost with one library or another, in nanoseconds: medians of rounds in turns, and their range.
//!
//!     cargo run --release --manifest-path tools/bench/crypto/Cargo.toml [BYTES]       1400 if absent

use std::hint::black_box;
use std::time::Instant;

const ROUNDS: usize = 31;
const SECRET: [u8; 32] = [7; 32];
const HEADER: [u8; 16] = [1; 16];

struct Row {
    work: String,
    library: &'static str,
    times: u32,
    run: Box<dyn FnMut()>,
    taken: Vec<f64>,
}

#[derive(Default)]
struct Table(Vec<Row>);

impl Table {
    fn add(
        &mut self,
        work: impl Into<String>,
        library: &'static str,
        times: u32,
        run: impl FnMut() + 'static,
    ) {
        self.0.push(Row { work: work.into(), library, times, run: Box::new(run), taken: Vec::new() });
    }
}

/// ring's interface, which aws-lc-rs has too.
macro_rules! aeads {
    ($table:expr, $library:ident, $name:literal, $bytes:expr) => {{
        use $library::aead::{
            AES_128_GCM, AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey,
        };
        let ciphers = [
            ("AES-128-GCM", &AES_128_GCM),
            ("AES-256-GCM", &AES_256_GCM),
            ("ChaCha20-Poly1305", &CHACHA20_POLY1305),
        ];
        for (cipher, algorithm) in ciphers {
            let key =
                || LessSafeKey::new(UnboundKey::new(algorithm, &SECRET[..algorithm.key_len()]).unwrap());
            let nonce = |counter: u64| {
                let mut nonce = [0; 12];
                nonce[4..].copy_from_slice(&counter.to_be_bytes());
                Nonce::assume_unique_for_key(nonce)
            };
            let (sealing, opening) = (key(), key());
            let mut packet = vec![0; $bytes];
            let mut sealed = packet.clone();
            opening.seal_in_place_append_tag(nonce(0), Aad::from(HEADER), &mut sealed).unwrap();
            let mut counter = 0;
            $table.add(format!("{cipher}, seal"), $name, 10_000, move || {
                counter += 1;
                let tag = sealing.seal_in_place_separate_tag(nonce(counter), Aad::from(HEADER), &mut packet);
                black_box(tag.unwrap().as_ref()[0]);
            });
            let mut record = sealed.clone();
            $table.add(format!("{cipher}, open"), $name, 10_000, move || {
                record.copy_from_slice(&sealed);
                black_box(opening.open_in_place(nonce(0), Aad::from(HEADER), &mut record).unwrap());
            });
        }
    }};
}

fn curve(table: &mut Table) {
    use curve25519_dalek::montgomery::MontgomeryPoint;
    let other = MontgomeryPoint::mul_base_clamped([9; 32]).to_bytes();
    let expected = MontgomeryPoint(other).mul_clamped(SECRET).to_bytes();
    let (agree, base) = ("X25519, agree", "X25519, public key");
    table.add(agree, "curve25519-dalek", 300, move || {
        black_box(MontgomeryPoint(black_box(other)).mul_clamped(black_box(SECRET)).to_bytes());
    });
    table.add(base, "curve25519-dalek", 1000, || {
        black_box(MontgomeryPoint::mul_base_clamped(black_box(SECRET)).to_bytes());
    });
    {
        use aws_lc_rs::agreement::{PrivateKey, UnparsedPublicKey, X25519, agree as agreement};
        let key = || PrivateKey::from_private_key(&X25519, &black_box(SECRET)).unwrap();
        let kept = key();
        let work = move || {
            let other = UnparsedPublicKey::new(&X25519, black_box(other));
            agreement(&kept, other, (), |shared| Ok(<[u8; 32]>::try_from(shared).unwrap())).unwrap()
        };
        assert_eq!(work(), expected);
        table.add(agree, "aws-lc-rs", 300, move || {
            black_box(work());
        });
        table.add(base, "aws-lc-rs", 1000, move || {
            black_box(key().compute_public_key().unwrap());
        });
    }
    {
        use graviola::key_agreement::x25519::{PublicKey, StaticPrivateKey};
        let key = || StaticPrivateKey::from_array(&black_box(SECRET));
        let work = move || key().diffie_hellman(&PublicKey::from_array(&black_box(other))).unwrap().0;
        assert_eq!(work(), expected);
        table.add(agree, "graviola", 300, move || {
            black_box(work());
        });
        table.add(base, "graviola", 1000, move || {
            black_box(key().public_key().as_bytes());
        });
    }
}

fn main() {
    let bytes = std::env::args().nth(1).map_or(1400, |bytes| bytes.parse().expect("bytes of a packet"));
    let mut table = Table::default();
    aeads!(table, ring, "ring", bytes);
    aeads!(table, aws_lc_rs, "aws-lc-rs", bytes);
    curve(&mut table);
    let Table(mut rows) = table;
    for _ in 0..ROUNDS {
        for row in &mut rows {
            let start = Instant::now();
            (0..row.times).for_each(|_| (row.run)());
            row.taken.push(start.elapsed().as_nanos() as f64 / f64::from(row.times));
        }
    }
    rows.sort_by(|a, b| a.work.cmp(&b.work));
    println!("| | | ns ({bytes} bytes) |\n|---|---|--:|");
    for Row { work, library, mut taken, .. } in rows {
        taken.sort_by(f64::total_cmp);
        let [least, median, most] = [0, ROUNDS / 2, ROUNDS - 1].map(|i| taken[i]);
        println!("| {work} | {library} | {median:.0} ({least:.0} to {most:.0}) |");
    }
}
