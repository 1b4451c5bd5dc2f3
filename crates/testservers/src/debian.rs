//! Servers from Debian packages: one program of a package that is installed, or packages of the
//! unstable suite unpacked into a folder with all that they need.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Error, run};

/// Where programs of packages lie, whatever the path of the user says.
const FOLDERS: &[&str] = &["/usr/sbin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin"];

/// The program that a package brings.
///
/// # Errors
/// [`Error::Missing`] where it is not installed.
pub fn program(name: &str, package: &str) -> Result<PathBuf, Error> {
    let found = FOLDERS
        .iter()
        .map(|folder| PathBuf::from(folder).join(name));
    found
        .into_iter()
        .find(|path| path.is_file())
        .ok_or_else(|| {
            let remedy = format!("apt-get install {package} brings it");
            Error::missing(format!("there is no '{name}'"), remedy)
        })
}

/// Signs what the suites hold.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

const ARCHIVE: &str = "http://deb.debian.org/debian";

/// The libraries of an unpacked package, and among them the loader of its C library.
const LIBRARIES: &str = "usr/lib/x86_64-linux-gnu";
const LOADER: &str = "ld-linux-x86-64.so.2";

/// What no program here reads.
const UNREAD: &[&str] = &[
    "usr/share/doc",
    "usr/share/locale",
    "usr/share/man",
    "usr/share/perl",
];

/// Fetches packages of the unstable suite, and those that they depend on down to the C library, and
/// unpacks them below `into`. Nothing of this machine's own packages is touched.
///
/// # Errors
/// [`Error::Missing`] where the suite cannot be reached.
pub fn unpack_unstable(packages: &[&str], into: &Path) -> Result<(), Error> {
    if cfg!(not(target_arch = "x86_64")) {
        return Err(Error::missing(
            "packages of Debian's unstable suite are unpacked for x86-64 only",
            "run the tests on such a machine",
        ));
    }
    let said = |error| Error::failed("the packages cannot be unpacked", error);
    let apt = into.join("apt");
    for folder in ["lists/partial", "archives/partial"] {
        fs::create_dir_all(apt.join(folder)).map_err(said)?;
    }
    let at = apt.display();
    let sources = format!("deb [signed-by={KEYRING}] {ARCHIVE} unstable main\n");
    // An empty status: nothing counts as installed.
    let configuration = format!(
        "Dir::Etc::sourcelist \"{at}/sources.list\";
Dir::Etc::sourceparts \"-\";
Dir::State \"{at}\";
Dir::State::status \"{at}/status\";
Dir::Cache \"{at}\";
Acquire::Languages \"none\";
Acquire::IndexTargets::deb::DEP-11::DefaultEnabled \"false\";
APT::Install-Recommends \"false\";
APT::Sandbox::User \"root\";
"
    );
    for (name, text) in [
        ("sources.list", sources.as_str()),
        ("status", ""),
        ("apt.conf", &configuration),
    ] {
        fs::write(apt.join(name), text).map_err(said)?;
    }
    let apt_get = |args: &[&str]| {
        let mut command = Command::new("apt-get");
        command.env("APT_CONFIG", apt.join("apt.conf"));
        command.args(["-q", "-y"]).args(args);
        run(&mut command).map_err(|error| {
            let what = format!("Debian's unstable suite cannot be had: {error}");
            Error::missing(what, "connect this machine to it")
        })
    };
    apt_get(&["update"])?;
    apt_get(&[&["--download-only", "install"], packages].concat())?;
    for entry in fs::read_dir(apt.join("archives")).map_err(said)? {
        let package = entry.map_err(said)?.path();
        if package.extension().is_some_and(|end| end == "deb") {
            run(Command::new("dpkg").arg("-x").arg(package).arg(into))?;
        }
    }
    for folder in UNREAD {
        // One that no package has is as good as removed.
        fs::remove_dir_all(into.join(folder)).ok();
    }
    fs::remove_dir_all(&apt).map_err(said)
}

/// An unpacked program, run by the C library that came with it.
pub fn unpacked(root: &Path, program: &str) -> Command {
    let libraries = root.join(LIBRARIES);
    let mut command = Command::new(libraries.join(LOADER));
    command
        .arg("--library-path")
        .arg(libraries)
        .arg(root.join(program));
    command
}
