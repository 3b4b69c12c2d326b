//! Lists of paths in JSON, which is text: a path that is not UTF-8 is an array of its bytes.

use std::borrow::Cow;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Shape<'a> {
    Text(Cow<'a, str>),
    Bytes(Cow<'a, [u8]>),
}

impl<'a> Shape<'a> {
    fn of(path: &'a Path) -> Shape<'a> {
        match path.to_str() {
            Some(text) => Shape::Text(text.into()),
            None => Shape::Bytes(path.as_os_str().as_bytes().into()),
        }
    }

    fn path(self) -> PathBuf {
        match self {
            Shape::Text(text) => PathBuf::from(text.into_owned()),
            Shape::Bytes(bytes) => OsString::from_vec(bytes.into_owned()).into(),
        }
    }
}

pub(super) fn serialize<'a, S: Serializer>(
    paths: impl IntoIterator<Item = &'a PathBuf>,
    to: S,
) -> Result<S::Ok, S::Error> {
    to.collect_seq(paths.into_iter().map(|path| Shape::of(path)))
}

pub(super) fn deserialize<'de, D: Deserializer<'de>, T: FromIterator<PathBuf>>(
    from: D,
) -> Result<T, D::Error> {
    let shapes = Vec::<Shape>::deserialize(from)?;
    Ok(shapes.into_iter().map(Shape::path).collect())
}
