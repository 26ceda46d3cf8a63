use std::fs;

use tempfile::TempDir;

use super::*;

fn file(folder: &TempDir, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
    let path = folder.path().join(name);
    fs::write(&path, content).expect("a file can be written");
    path
}

fn flags(text: &str) -> Config {
    parse(text).unwrap_or_else(|errors| panic!("{errors}"))
}

/// Refusals, with the folder's name left out.
fn refused(folder: &TempDir, path: Option<&Path>, flags: Config) -> String {
    let error = merged(path, flags).expect_err("refused").to_string();
    error.replace(folder.path().to_str().expect("UTF-8"), "DIR")
}

#[test]
fn files_that_cannot_be_read_are_named() {
    let folder = TempDir::new().expect("a folder");
    let said = |path: &Path| refused(&folder, Some(path), Config::default());
    let missing = said(&folder.path().join("none.toml"));
    assert!(missing.starts_with("cannot read configuration DIR/none.toml: No such file"), "{missing}");
    assert!(said(folder.path()).contains("Is a directory"));
    let binary = file(&folder, "b", b"heal = \"off\"\n\xff\xfe\n");
    assert_eq!(said(&binary), "DIR/b:2: not UTF-8; save the file as UTF-8");
    assert!(said(Path::new("/dev/zero")).starts_with("/dev/zero: longer than 1048576 bytes"));
}

#[test]
fn flags_override_before_the_whole_is_checked() {
    let folder = TempDir::new().expect("a folder");
    let path = file(&folder, "c.toml", "heal = \"on\"\nthreshold = 3\n");
    let config = merged(Some(&path), flags("heal = \"off\"")).expect("the flag makes it possible");
    assert_eq!(config.judging().rules.fall, 3);
}

#[test]
fn what_is_not_available_is_refused_where_it_is_said() {
    let folder = TempDir::new().expect("a folder");
    let path = file(&folder, "c.toml", "heal = \"on\"\nflows = \"full\"\n");
    insta::assert_snapshot!("unavailable_file", refused(&folder, Some(&path), Config::default()));
    let by_flags = refused(&folder, None, flags("heal = \"dry-run\"\nflows = \"full\""));
    insta::assert_snapshot!("unavailable_flags", by_flags);
    for accepted in ["heal = \"off\"\nflows = \"off\"", "flows = \"control\""] {
        assert!(merged(None, flags(accepted)).is_ok(), "{accepted}");
    }
}

#[test]
fn a_flag_that_does_not_fit_the_file_is_named_as_a_flag() {
    let folder = TempDir::new().expect("a folder");
    let path = file(&folder, "c.toml", "nics = [\"eth0\"]\n");
    let expect = flags("[[expect]]\nnic = \"eth1\"\nport = 8008");
    let said = refused(&folder, Some(&path), expect);
    assert!(
        said.starts_with(
            "--expect: the probe of port 8008 on eth1 is expected, but the NICs to judge are eth0"
        ),
        "{said}"
    );
    let path = file(&folder, "d.toml", "[[expect]]\nnic = \"eth1\"\nport = 8008\n");
    let said = refused(&folder, Some(&path), flags("nics = [\"eth0\"]"));
    assert!(said.contains("DIR/d.toml:2:7: the probe of port 8008 on eth1"), "{said}");
}

#[test]
fn service_tags_are_read_beside_the_file_that_names_them() {
    let folder = TempDir::new().expect("a folder");
    let tags = r#"{"values": [{"name": "AzureTrafficManager", "properties": {"addressPrefixes": ["40.68.30.66/32", "13.65.92.0/24"]}}]}"#;
    file(&folder, "tags.json", tags);
    let text = "profile = \"azure-traffic-manager\"\nservice_tags = \"tags.json\"\nsources = [\"10.4.2.1\"]";
    let path = file(&folder, "c.toml", text);
    let config = merged(Some(&path), Config::default()).expect("valid");
    let (sources, judging) = resolve(&config).expect("sources");
    let spelled: Vec<(String, u16)> = sources.iter().map(|s| (s.to_string(), s.peer_id)).collect();
    let expected = [("40.68.30.66", 1), ("13.65.92.0/24", 2), ("10.4.2.1", 3)];
    assert_eq!(spelled, expected.map(|(text, id)| (text.to_owned(), id)));
    assert_eq!((judging.profile, judging.rules.fall), (crate::profile::Profile::AzureTrafficManager, 4));
    let other = merged(Some(&path), flags("service_tag = \"AzureTraficManager\"")).expect("valid");
    let said = resolve(&other).expect_err("no such tag").to_string();
    assert!(
        said.ends_with("tags.json has no service tag 'AzureTraficManager'; near it are AzureTrafficManager"),
        "{said}"
    );
}

#[test]
fn half_of_a_service_tag_is_refused() {
    let folder = TempDir::new().expect("a folder");
    let said = refused(&folder, None, flags("service_tag = \"AzureTrafficManager\""));
    assert!(said.contains("--service-tags"), "{said}");
    let said = refused(&folder, None, flags("service_tags = \"tags.json\""));
    assert!(said.contains("azure-lb has no service tag of its own"), "{said}");
    let no_sources = merged(None, flags("profile = \"azure-traffic-manager\"")).expect("valid so far");
    let said = resolve(&no_sources).expect_err("nothing to watch").to_string();
    assert!(said.contains("--service-tags FILE"), "{said}");
}
