//! Files that were made to do harm: pages that lead back to themselves, lengths beyond all bounds,
//! and random damage of thousands of pages. Nothing comes of it but less.

use super::*;

/// A leaf of the table with one row whose rest lies on other pages, which `pages` link.
fn with_chain(total: u64, next: u32, pages: &[u32]) -> Vec<u8> {
    let mut bytes = vec![0; PAGE * (2 + pages.len())];
    let leaf = &mut bytes[PAGE..2 * PAGE];
    leaf[0] = LEAF_OF_TABLE;
    leaf[3..5].copy_from_slice(&20_u16.to_be_bytes());
    for cell in 0..20 {
        leaf[8 + 2 * cell..10 + 2 * cell].copy_from_slice(&60_u16.to_be_bytes());
    }
    let groups = |value: u64, bytes: u32| -> Vec<u8> {
        let group = |n| ((value >> (7 * n)) & 0x7f) as u8 | if n > 0 { 0x80 } else { 0 };
        (0..bytes).rev().map(group).collect()
    };
    let mut cell = groups(total, 8);
    cell.push(1);
    // NULL, a parent, a session, a place, a time, `said`, 16 bytes, NULL, the body.
    let body = (total - 34) * 2 + 12;
    let mut header = vec![0, 8, 8, 8, 8, 21, 44, 0];
    header.extend(groups(body, 5));
    cell.push(header.len() as u8 + 1);
    cell.extend(header);
    leaf[60..60 + cell.len()].copy_from_slice(&cell);
    let at = 60 + 9 + local(total as usize);
    if let Some(pointer) = leaf.get_mut(at..at + 4) {
        pointer.copy_from_slice(&next.to_be_bytes());
    }
    for (n, next) in pages.iter().enumerate() {
        let at = PAGE * (2 + n);
        bytes[at..at + 4].copy_from_slice(&next.to_be_bytes());
    }
    bytes
}

/// Pages that lead back to themselves, and lengths beyond all bounds.
#[test]
fn a_chain_without_end_ends() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("hostile");
    for total in [20_000, 200_000_000, 1 << 40, u64::MAX >> 2] {
        for pages in [
            vec![3],
            vec![4, 3],
            vec![4, 5, 6, 4],
            vec![0],
            vec![u32::MAX],
        ] {
            let bytes = with_chain(total, 3, &pages);
            let is_ours = Cell::at(&bytes[PAGE..2 * PAGE], 60).and_then(|cell| key(&cell));
            assert_eq!(is_ours.is_some(), total < 1 << 40);
            fs::write(&path, bytes).unwrap();
            assert_eq!(found(&path, &path), (BTreeSet::new(), Vec::new()));
        }
    }
}

fn carving_of(database: &Path) -> Carving {
    Carving {
        pages: Pages {
            database: Some(File::open(database).unwrap()),
            wal: None,
        },
        uses: HashMap::new(),
        entries: HashSet::new(),
        blobs: HashSet::new(),
        looked_at: 0,
    }
}

/// Each page of the chain is read so often at most, however many rows claim it.
#[test]
fn rows_that_claim_the_same_pages_are_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("hostile");
    let pages: Vec<u32> = (4..=203).collect();
    fs::write(&path, with_chain(700_000, 3, &pages)).unwrap();
    let mut carving = carving_of(&path);
    let page = &fs::read(&path).unwrap()[PAGE..2 * PAGE];
    let cell = Cell::at(page, 60).unwrap();
    assert!(key(&cell).is_some());
    for _ in 0..100 {
        carving
            .cell(&cell, &mut |_| panic!("it is believed"))
            .unwrap();
    }
    assert_eq!(carving.uses.values().max(), Some(&MAX_USES));
}

struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }
}

/// One page of many is damaged in one way that keeps it looking like a page.
fn damage(noise: &mut Noise, bytes: &mut [u8], page: usize) {
    let pages = bytes.len() / PAGE;
    let other = noise.below(pages);
    let at = page * PAGE;
    let word = noise.next().to_be_bytes();
    let cell = at + 8 + 2 * noise.below(40);
    match noise.below(9) {
        0 => bytes[at + noise.below(PAGE)] ^= 1 << noise.below(8),
        1 => {
            let at = at + noise.below(PAGE - 8);
            bytes[at..at + 8].copy_from_slice(&word);
        }
        // A cell lies elsewhere, or two at one place.
        2 => bytes[cell..cell + 2].copy_from_slice(&word[..2]),
        3 => bytes.copy_within(at + 8..at + 10, cell),
        // A chain goes another way, most of all back.
        4 => bytes[at..at + 4].copy_from_slice(&(other as u32 + 1).to_be_bytes()),
        5 => bytes.copy_within(other * PAGE..(other + 1) * PAGE, at),
        // A length of nine bytes where a cell begins.
        6 => {
            let cell = usize::from(u16::from_be_bytes([bytes[at + 8], bytes[at + 9]]));
            let cell = at + cell.min(PAGE - 9);
            bytes[cell..cell + 9].fill(0xff);
        }
        7 => {
            bytes[at] = LEAF_OF_TABLE;
            bytes[at + 3..at + 5].copy_from_slice(&word[..2]);
        }
        _ => {
            let from = at + noise.below(PAGE);
            for byte in &mut bytes[from..at + PAGE] {
                *byte = noise.next() as u8;
            }
        }
    }
}

/// The frames of a log are valid again, whatever is on their pages: who makes such a file does so.
fn make_valid(log: &mut [u8]) {
    let word = |bytes: &[u8]| u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    let mut sum = [word(&log[24..28]), word(&log[28..32])];
    let is_big = word(&log[..4]) & 1 == 1;
    for frame in log[32..].chunks_exact_mut(FRAME) {
        sum = super::super::wal::checksum(is_big, sum, &frame[..8]);
        sum = super::super::wal::checksum(is_big, sum, &frame[24..]);
        frame[16..20].copy_from_slice(&sum[0].to_be_bytes());
        frame[20..24].copy_from_slice(&sum[1].to_be_bytes());
    }
}

/// No panic, an end, and nothing that is not what was written.
#[test]
fn thousands_of_damaged_pages_only_cost_their_rows() {
    let scene = Scene::new();
    scene.conn.execute_batch("BEGIN").unwrap();
    for id in 1..600 {
        let row = New {
            bytes: [90, 700, 3_900, 5_000, 40_000][id as usize % 5] + id as usize,
            is_packed: id % 2 == 0,
            has_tip: true,
            plan_step: None,
            at_ms: id,
        };
        scene.add(id, &row);
        if id == 450 {
            scene.conn.execute_batch("COMMIT").unwrap();
            scene.checkpoint();
        } else if id > 450 || id % 50 == 0 {
            let _ = scene.conn.execute_batch("COMMIT; BEGIN");
        }
    }
    let _ = scene.conn.execute_batch("COMMIT");
    let [database, log] = scene.files();
    let (database, log) = (fs::read(database).unwrap(), fs::read(log).unwrap());
    let selected = scene.selected();
    let bodies: BTreeSet<&Vec<u8>> = selected.iter().map(|row| &row.body).collect();
    let copies = ["one", "two"].map(|name| scene.dir.path().join(name));
    let (mut damaged, mut found_rows) = (0, 0);
    for seed in 1..=40 {
        let mut noise = Noise(seed * 0x9e37_79b9);
        let one_of = 2 + noise.below(12);
        let mut bytes = database.clone();
        let mut frames: Vec<u8> = log[32..]
            .chunks_exact(FRAME)
            .flat_map(|f| &f[24..])
            .copied()
            .collect();
        for pages in [&mut bytes, &mut frames] {
            for page in 0..pages.len() / PAGE {
                if noise.below(one_of) == 0 {
                    damage(&mut noise, pages, page);
                    damaged += 1;
                }
            }
        }
        let mut log = log.clone();
        for (frame, page) in log[32..]
            .chunks_exact_mut(FRAME)
            .zip(frames.chunks_exact(PAGE))
        {
            frame[24..].copy_from_slice(page);
        }
        make_valid(&mut log);
        fs::write(&copies[0], &bytes).unwrap();
        fs::write(&copies[1], &log).unwrap();
        for row in found(&copies[0], &copies[1]).0 {
            // A row id is not under the checksum.
            assert!(bodies.contains(&row.body), "seed {seed}: row {}", row.id);
            found_rows += 1;
        }
    }
    println!("{damaged} pages damaged, {found_rows} rows found");
    assert!(
        damaged > 5_000 && found_rows > 2_000,
        "{damaged} {found_rows}"
    );
}

/// Rows that all claim the same pages, each with a checksum that is right: what they give together
/// has a bound, and then it is an error.
#[test]
fn what_is_given_is_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("hostile");
    let pages: Vec<u32> = (4..=203).collect();
    let mut bytes = with_chain(700_000, 3, &pages);
    fs::write(&path, &bytes).unwrap();
    let cell = Cell::at(&bytes[PAGE..2 * PAGE], 60);
    let record = carving_of(&path).record(&cell.unwrap(), true).unwrap();
    let values = values(&record, record.len()).unwrap();
    let [.., Some(Value::Text(body) | Value::Blob(body))] = values[..] else {
        panic!("{}", values.len());
    };
    let sum = checksum(Some(0), 0, 0, body);
    // Behind a length, a row id, 14 bytes of types and the text of the kind.
    let at = PAGE + 60 + 9 + 14 + 4;
    bytes[at..at + sum.len()].copy_from_slice(&sum);
    // The same with other row ids, on pages of their own.
    for id in 2..=30_u8 {
        let mut leaf = bytes[PAGE..2 * PAGE].to_vec();
        leaf[60 + 8] = id;
        bytes.extend_from_slice(&leaf);
    }
    fs::write(&path, &bytes).unwrap();
    let mut pipe = Vec::new();
    write_all(&path, &path, &mut pipe, u64::MAX).unwrap();
    assert!(pipe.len() > 20 * 700_000, "{}", pipe.len());
    pipe.clear();
    let most = 4 * bytes.len();
    write_all(&path, &path, &mut pipe, most as u64).unwrap_err();
    assert!(pipe.len() <= most);
    let mut given = 0;
    let read = read_all(&pipe[..], &mut |carved| {
        given += u64::from(matches!(carved, Carved::Entry(_)));
        Ok(())
    });
    assert_eq!(read.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    assert!(given > 0);
}
