use std::sync::Arc;

use tempfile::TempDir;

use super::*;

mod suite {
    use super::*;

    async fn empty() -> (Arc<dyn Blob>, TempDir) {
        let folder = TempDir::new().unwrap();
        let blob = DiskBlob::open(folder.path()).await.unwrap();
        (Arc::new(blob), folder)
    }

    clapboard_jobs::blob_conformance!(empty());
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    files
}

#[tokio::test]
async fn what_an_earlier_process_left_unfinished_is_removed_and_objects_stay() {
    let folder = TempDir::new().unwrap();
    let source = folder.path().join("source");
    fs::write(&source, "object").unwrap();
    let key: BlobKey = "v1/object".parse().unwrap();
    DiskBlob::open(folder.path()).await.unwrap().put_file(&key, &source, &|| ()).await.unwrap();
    fs::write(folder.path().join("incoming/half"), "ha").unwrap();

    let again = DiskBlob::open(folder.path()).await.unwrap();
    assert!(!folder.path().join("incoming/half").exists());
    assert_eq!(again.head(&key).await.unwrap().unwrap().size_bytes, 6);
}

#[tokio::test]
async fn a_put_leaves_one_file_whether_it_creates_repeats_or_is_refused() {
    let folder = TempDir::new().unwrap();
    let source = TempDir::new().unwrap();
    let (one, two) = (source.path().join("one"), source.path().join("two"));
    fs::write(&one, "one").unwrap();
    fs::write(&two, "two").unwrap();
    let blob = DiskBlob::open(folder.path()).await.unwrap();
    let key: BlobKey = "v1/object".parse().unwrap();
    for file in [&one, &one, &two, &source.path().join("missing")] {
        let _ = blob.put_file(&key, file, &|| ()).await;
        assert_eq!(files_below(folder.path()), [folder.path().join("objects/v1/object")]);
    }
}

#[tokio::test]
async fn deleting_the_last_object_of_a_folder_removes_the_folder() {
    let folder = TempDir::new().unwrap();
    let source = folder.path().join("source");
    fs::write(&source, "x").unwrap();
    let blob = DiskBlob::open(folder.path()).await.unwrap();
    let keys: [BlobKey; 2] = ["v1/a/b/c.mp4".parse().unwrap(), "v1/a/d.mp4".parse().unwrap()];
    for key in &keys {
        blob.put_file(key, &source, &|| ()).await.unwrap();
    }
    blob.delete(&keys[0]).await.unwrap();
    assert!(!folder.path().join("objects/v1/a/b").exists());
    assert!(folder.path().join("objects/v1/a/d.mp4").exists());
    blob.delete(&keys[1]).await.unwrap();
    assert_eq!(fs::read_dir(folder.path().join("objects")).unwrap().count(), 0);
}

#[tokio::test]
async fn puts_and_deletes_of_one_folder_do_not_trip_over_each_other() {
    let folder = TempDir::new().unwrap();
    let source = folder.path().join("source");
    fs::write(&source, "x").unwrap();
    let blob = DiskBlob::open(folder.path()).await.unwrap();
    let mut workers = tokio::task::JoinSet::new();
    for worker in 0..4 {
        let (blob, source) = (blob.clone(), source.clone());
        workers.spawn(async move {
            let key: BlobKey = format!("v1/shared/folder/{worker}").parse().unwrap();
            for _ in 0..200 {
                assert!(blob.put_file(&key, &source, &|| ()).await.unwrap().created);
                blob.delete(&key).await.unwrap();
            }
        });
    }
    workers.join_all().await;
    assert_eq!(files_below(&folder.path().join("objects")), [] as [PathBuf; 0]);
}

#[tokio::test]
async fn a_folder_that_is_a_file_is_named() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "not a folder").unwrap();
    let refused = DiskBlob::open(&file).await.unwrap_err();
    assert_eq!(refused.to_string(), format!("{} cannot hold media: could not make it", file.join("objects").display()));
    assert_eq!(fs::read_to_string(&file).unwrap(), "not a folder");
}

#[tokio::test]
async fn a_file_that_no_put_made_is_not_listed() {
    let folder = TempDir::new().unwrap();
    let blob = DiskBlob::open(folder.path()).await.unwrap();
    fs::write(folder.path().join("objects/lost+found?"), "x").unwrap();
    assert_eq!(blob.list("", None, 10).await.unwrap(), []);
}
