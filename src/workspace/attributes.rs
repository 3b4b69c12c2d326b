//! Copying of a file's extended attributes, which include its ACL.
//!
//! Left out: attributes that the kernel removes when a file is written (capabilities), and those
//! that it computes from the content (IMA and EVM). macOS stores its ACLs elsewhere, and they are
//! not copied.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::{self, ErrorKind};

use rustix::fs::{XattrFlags, fgetxattr, flistxattr, fremovexattr, fsetxattr};

/// Maximum size that the kernel allows for the names of a file and for a value.
const MAX_BYTES: usize = 64 * 1024;

/// The access list of a file.
const ACL: &CStr = c"system.posix_acl_access";

const OF_CONTENT: [&CStr; 3] = [c"security.capability", c"security.ima", c"security.evm"];

/// Copies the attributes of `old` to `new`. Returns the names of those that could not be copied.
///
/// # Errors
/// `new` cannot get the ACL: without it, its mode would have another meaning.
pub fn copy_attributes(old: &File, new: &File) -> io::Result<Vec<String>> {
    let mut lost = Vec::new();
    let names = match names(old) {
        Ok(names) => names,
        Err(e) if e.kind() == ErrorKind::Unsupported => return Ok(lost),
        Err(e) => return Err(e),
    };
    if !names.iter().any(|name| name.as_c_str() == ACL) {
        // Removes an ACL that the folder gives to every new file.
        let _ = fremovexattr(new, ACL);
    }
    for name in names {
        if OF_CONTENT.contains(&name.as_c_str()) {
            continue;
        }
        let copied = copy(&name, old, new);
        match copied {
            Ok(()) => {}
            Err(e) if name.as_c_str() == ACL => {
                return Err(io::Error::new(e.kind(), format!("its ACL: {e}")));
            }
            Err(_) => lost.push(name.to_string_lossy().into_owned()),
        }
    }
    Ok(lost)
}

fn copy(name: &CStr, old: &File, new: &File) -> io::Result<()> {
    let value = match value(old, name) {
        // Somebody removed it just now.
        Err(e) if is_missing(&e) => return Ok(()),
        value => value?,
    };
    match self::value(new, name) {
        Ok(same) if same == value => Ok(()),
        _ => Ok(fsetxattr(new, name, &value, XattrFlags::empty())?),
    }
}

fn names(file: &File) -> io::Result<Vec<CString>> {
    let mut names = vec![0_u8; MAX_BYTES];
    let length = flistxattr(file, &mut names[..])?;
    names.truncate(length);
    let names = names.split_inclusive(|byte| *byte == 0);
    Ok(names
        .filter_map(|name| CStr::from_bytes_with_nul(name).ok())
        .map(CStr::to_owned)
        .collect())
}

fn value(file: &File, name: &CStr) -> io::Result<Vec<u8>> {
    let mut value = vec![0_u8; MAX_BYTES];
    let length = fgetxattr(file, name, &mut value[..])?;
    value.truncate(length);
    Ok(value)
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn is_missing(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::NODATA.raw_os_error())
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn is_missing(_: &io::Error) -> bool {
    false
}
