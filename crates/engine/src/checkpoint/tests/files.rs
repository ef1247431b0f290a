//! Files and folders that are there, but cannot be read or must not be.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use clapboard_h3::Partition;

use super::{edit, tiny};
use crate::checkpoint::{Checkpoint, ComponentId, Error, FileProblem, Layout, inspect};

/// Joins an error with its causes, as the command line shows it.
fn told(error: &dyn std::error::Error) -> String {
    let source = error.source().map(|source| format!(": {}", told(source)));
    format!("{error}{}", source.unwrap_or_default())
}

fn replace_by_link(path: &Path, target: impl AsRef<Path>) {
    fs::remove_file(path).or_else(|_| fs::remove_dir_all(path)).unwrap();
    symlink(target, path).unwrap();
}

#[test]
fn an_unusable_tokenizer_makes_a_checkpoint_incomplete() {
    let (_dir, root) = tiny(Layout::Diffusers);
    let path = root.join("tokenizer/tokenizer.json");
    let good = fs::read(&path).unwrap();
    assert!(inspect(&root).unwrap().is_usable());
    for bad in [&b""[..], b"{}", b"[]", &good[..good.len() / 2], &[0xff, 0, 1, 2, 0x80]] {
        fs::write(&path, bad).unwrap();
        let inspection = inspect(&root).unwrap();
        assert!(!inspection.is_usable(), "{inspection}");
        assert_eq!(inspection.tokenizer.file.as_ref(), Some(&path));
        let page = inspection.to_string();
        assert!(
            page.contains("\ntokenizer: could not read tokenizer ") && page.ends_with("cannot be served"),
            "{page}"
        );
    }
    replace_by_link(&path, "/dev/zero");
    let problem = inspect(&root).unwrap().tokenizer.problem.unwrap();
    assert!(problem.ends_with("tokenizer.json: it is not a regular file"), "{problem}");
    fs::remove_file(&path).unwrap();
    let problem = inspect(&root).unwrap().tokenizer.problem.unwrap();
    assert!(problem.starts_with("tokenizer is missing: expected "), "{problem}");
}

#[test]
fn a_tokenizer_beyond_the_vocabulary_makes_a_checkpoint_incomplete() {
    let (_dir, root) = tiny(Layout::Diffusers);
    let path = root.join("tokenizer/tokenizer.json");
    edit(&path, |json| json["model"]["vocab"]["far"] = serde_json::json!(100_000));
    let inspection = inspect(&root).unwrap();
    assert!(!inspection.is_usable(), "{inspection}");
    let problem = inspection.tokenizer.problem.unwrap();
    assert!(problem.contains(" gives ids up to 100000, "), "{problem}");
}

#[test]
fn what_cannot_be_looked_at_is_not_absent() {
    // A link to itself stands for every refusal of the system; a folder without permission is refused likewise.
    for place in ["FL2VA", "Ref2VA", "FL2VA/transformer", "modular_model_index.json"] {
        let (_dir, root) = tiny(Layout::Original);
        let path = root.join(place);
        if path.exists() {
            fs::remove_dir_all(&path).unwrap();
        }
        symlink(path.file_name().unwrap(), &path).unwrap();
        for error in [Checkpoint::open(&root).unwrap_err(), inspect(&root).unwrap_err()] {
            assert!(matches!(&error, Error::Io { doing: "open", path: named, .. } if *named == path), "{error}");
        }
    }
    let (_dir, root) = tiny(Layout::Original);
    let path = root.join("FL2VA/text_encoder");
    replace_by_link(&path, "text_encoder");
    let error = Checkpoint::open(&root).unwrap_err();
    assert!(matches!(&error, Error::Io { path: named, .. } if *named == path), "{error}");
    let inspection = inspect(&root).unwrap();
    assert!(!inspection.is_usable(), "{inspection}");
    let settings = root.join("clapboard.json");
    fs::remove_file(&path).unwrap();
    replace_by_link(&settings, "nowhere");
    let error = Checkpoint::open(&root).unwrap_err();
    assert!(matches!(&error, Error::Io { path: named, .. } if *named == settings), "{error}");
}

#[test]
fn an_inspection_says_which_folder_each_component_comes_from() {
    let (_dir, root) = tiny(Layout::Original);
    fs::remove_dir_all(root.join("FL2VA/text_encoder")).unwrap();
    fs::remove_dir_all(root.join("FL2VA/tokenizer")).unwrap();
    let inspection = inspect(&root).unwrap();
    assert!(inspection.is_usable(), "{inspection}");
    let page = inspection.to_string();
    for (component, folder) in [
        ("dit/fl2va", "FL2VA/transformer"),
        ("dit/ref2va", "Ref2VA/transformer"),
        ("text_encoder", "Ref2VA/text_encoder"),
        ("video_vae", "FL2VA/video_vae/source"),
        ("audio_vae", "FL2VA/audio_vae"),
        ("tokenizer", "Ref2VA/tokenizer/tokenizer.json"),
    ] {
        assert!(page.contains(&format!("\n{component:<14}{}\n", root.join(folder).display())), "{page}");
    }
}

#[test]
fn devices_and_pipes_are_refused_wherever_a_file_is_read() {
    for place in
        ["FL2VA/transformer/config.json", "FL2VA/model_index.json", "FL2VA/audio_vae/metadata.json", "clapboard.json"]
    {
        let (_dir, root) = tiny(Layout::Original);
        let path = root.join(place);
        for make in [make_pipe, |path: &Path| symlink("/dev/zero", path).unwrap()] {
            fs::remove_file(&path).unwrap();
            make(&path);
            let error = Checkpoint::open(&root).unwrap_err();
            let refused =
                matches!(&error, Error::File { path: named, problem: FileProblem::NotRegular } if *named == path);
            assert!(refused, "{error}");
        }
    }
    let (_dir, root) = tiny(Layout::Original);
    let path = root.join("FL2VA/transformer/more.safetensors");
    make_pipe(&path);
    let error = Checkpoint::open(&root).unwrap().component(ComponentId::Dit(Partition::Fl2va)).unwrap_err();
    assert_eq!(error.to_string(), format!("cannot use {}: it is not a regular file", path.display()));
    // A weight index is a hint only: without it the component opens all the same.
    fs::remove_file(&path).unwrap();
    let index = root.join("FL2VA/transformer/model.safetensors.index.json");
    fs::remove_file(&index).unwrap();
    make_pipe(&index);
    Checkpoint::open(&root).unwrap().component(ComponentId::Dit(Partition::Fl2va)).unwrap();
}

fn make_pipe(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

#[test]
fn a_config_larger_than_any_is_refused() {
    let (_dir, root) = tiny(Layout::Diffusers);
    let path = root.join("vae/config.json");
    fs::File::options().write(true).open(&path).unwrap().set_len((4 << 20) + 1).unwrap();
    let error = Checkpoint::open(&root).unwrap_err();
    let rule = "it is larger than 4194304 bytes, the most that such a file may have";
    assert_eq!(error.to_string(), format!("cannot use {}: {rule}", path.display()));
}

#[test]
fn an_error_does_not_repeat_its_cause() {
    let dir = tempfile::tempdir().unwrap();
    let absent = dir.path().join("absent");
    let error = Checkpoint::open(&absent).unwrap_err();
    let expected = format!("could not open {}: No such file or directory (os error 2)", absent.display());
    assert_eq!(told(&error), expected);
    let (_dir, root) = tiny(Layout::Diffusers);
    let path = root.join("vae/config.json");
    fs::write(&path, "{").unwrap();
    let error = Checkpoint::open(&root).unwrap_err();
    let expected = format!("{} is not valid JSON: EOF while parsing an object at line 1 column 1", path.display());
    assert_eq!(told(&error), expected);
}
