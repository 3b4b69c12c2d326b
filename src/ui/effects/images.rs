//! Images on the disk: whether a path is one, and the bytes of those that are sent.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::core::image::{START_BYTES, media_type};
use crate::session::read_image;
use crate::store::database;

/// Returns the first of these ways to read a text whose files are all images.
pub(super) fn found(ways: &[Vec<PathBuf>]) -> Option<Vec<PathBuf>> {
    let all_are = |way: &&Vec<PathBuf>| way.iter().all(|path| is_image(path));
    ways.iter().find(all_are).cloned()
}

/// Returns whether a file is an image, by its first bytes. Only plain files are opened, since a
/// pipe would block.
fn is_image(path: &Path) -> bool {
    if !std::fs::metadata(path).is_ok_and(|m| m.is_file()) || database::is_open_in_process(path) {
        return false;
    }
    let mut start = Vec::new();
    let most = START_BYTES as u64;
    let read = File::open(path).and_then(|file| file.take(most).read_to_end(&mut start));
    read.is_ok() && media_type(&start).is_some()
}

/// Reads an image. See [`read_image`].
pub(super) fn read(path: &Path) -> Result<(&'static str, Vec<u8>), String> {
    read_image(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::image;
    use crate::ui::composer::images::{PathBase, pasted, typed};

    const PNG: &[u8] = b"\x89PNG\r\n\x1a\n1234";

    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a.png", "b c.PNG", "it's.png", "d (1).png"] {
            std::fs::write(folder.path().join(name), PNG).unwrap();
        }
        std::fs::write(folder.path().join("text.png"), "no image").unwrap();
        folder
    }

    #[test]
    fn paths_that_terminals_paste_on_a_drop_are_recognised() {
        let folder = folder();
        let root = folder.path().to_str().unwrap();
        let place = PathBase {
            folder: folder.path(),
            home: Some(folder.path()),
        };
        for (text, want) in [
            ("R/a.png", &["a.png"][..]),
            ("R/a.png \n", &["a.png"]),
            ("R/b c.PNG", &["b c.PNG"]),
            ("R/b\\ c.PNG", &["b c.PNG"]),
            ("'R/b c.PNG' ", &["b c.PNG"]),
            ("\"R/b c.PNG\"", &["b c.PNG"]),
            ("R/d (1).png", &["d (1).png"]),
            ("R/d\\ \\(1\\).png", &["d (1).png"]),
            ("file://R/b%20c.PNG", &["b c.PNG"]),
            ("file://localhostR/a.png", &["a.png"]),
            ("R/a.png R/b\\ c.PNG", &["a.png", "b c.PNG"]),
            ("~/a.png", &["a.png"]),
            ("R/text.png", &[]),
            ("R/gone.png", &[]),
            ("see R/a.png", &[]),
            ("file://R/%zz.png", &[]),
            ("$(rm x).png", &[]),
            ("", &[]),
        ] {
            let ways = pasted(&text.replace('R', root), place).unwrap_or_default();
            let got = found(&ways).unwrap_or_default();
            let want: Vec<PathBuf> = want.iter().map(|name| folder.path().join(name)).collect();
            assert_eq!(got, want, "{text:?}");
        }
    }

    #[test]
    fn typed_text_names_an_image_only_if_it_looks_like_a_path() {
        let folder = folder();
        let place = PathBase {
            folder: folder.path(),
            home: None,
        };
        for (line, want) in [
            ("look at ./a.png", Some((8, "./a.png"))),
            ("look at @a.png", Some((8, "a.png"))),
            ("@\"b c.PNG\"", Some((0, "b c.PNG"))),
            ("it's ./b\\ c.PNG", Some((5, "./b c.PNG"))),
            ("fix a.png", None),
            ("~/a.png", None),
            ("./a.png.txt", None),
        ] {
            let want = want.map(|(start, name)| (start, folder.path().join(name)));
            let got = typed(line, place).filter(|(_, path)| is_image(path));
            assert_eq!(got, want, "{line:?}");
        }
    }

    #[test]
    fn only_an_image_that_can_be_read_is_sent() {
        let folder = tempfile::tempdir().unwrap();
        let png = support::PNG;
        let put = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            path
        };
        let sent = read(&put("a.png", png)).unwrap();
        assert_eq!(sent, ("image/png", png.to_vec()));
        let cut = read(&put("cut.png", &png[..50])).unwrap_err();
        assert!(cut.contains("but ends in the middle"), "{cut}");
        let large = [png, &vec![0; image::MAX_BYTES as usize]].concat();
        let large = read(&put("large.png", &large)).unwrap_err();
        assert!(large.contains("more than 3932160 bytes"), "{large}");
        let device = read(Path::new("/dev/zero")).unwrap_err();
        assert!(device.contains("not a regular file"), "{device}");
    }
}
