//! Hash the sources, so that two builds can be told apart by what they do.

use std::fs;
use std::hash::{DefaultHasher, Hasher};
use std::io;
use std::path::{Path, PathBuf};

fn sources(directory: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            sources(&path, found)?;
        } else {
            found.push(path);
        }
    }
    Ok(())
}

fn main() -> io::Result<()> {
    let mut found = vec!["../Cargo.lock".into()];
    for directory in ["src", "../src"] {
        println!("cargo::rerun-if-changed={directory}");
        sources(Path::new(directory), &mut found)?;
    }
    found.sort();
    let mut hasher = DefaultHasher::new();
    for path in found {
        hasher.write(&fs::read(path)?);
    }
    println!("cargo::rustc-env=SOURCES={:016x}", hasher.finish());
    Ok(())
}
