//! A server that speaks MongoDB's protocol, mongo-java-server from Maven Central, with its data in a file
//! of H2; pymongo, MongoDB's own client, lies beside it in `python`.
//!
//! MongoDB itself is in no registry that tests can ask. This one has commands, conditions, indexes and
//! errors as MongoDB has them; it knows no login, no transactions and no replica sets. Its data is
//! written when it is told to end.
//!
//! Settings of an order: `tls` is a PEM file with key and certificate, by which the port speaks TLS.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::debian::program;
use crate::place::installed;
use crate::ready::listens;
use crate::{Error, Place, Recipe, answers, run};

pub(crate) const MONGODB: MongoDb = MongoDb;

pub(crate) struct MongoDb;

const VERSION: &str = "1.47.0";

const CLIENT: &str = "4.15.5";

/// It says that it is as old as drivers of today take at least: the library calls itself older, and has
/// what they use.
const MAIN: &str = r#"
import de.bwaldvogel.mongo.MongoServer;
import de.bwaldvogel.mongo.MongoVersion;
import de.bwaldvogel.mongo.backend.h2.H2Backend;
import java.io.ByteArrayInputStream;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyFactory;
import java.security.PrivateKey;
import java.security.cert.CertificateFactory;
import java.security.cert.X509Certificate;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;

public class Main {
    static class Version implements MongoVersion {
        public List<Integer> getVersionArray() { return List.of(4, 4, 0); }
        public String toVersionString() { return "4.4.0"; }
        public int getWireVersion() { return 9; }
    }

    public static void main(String[] args) throws Exception {
        H2Backend backend = new H2Backend(args[1]);
        backend.version(new Version());
        MongoServer server = new MongoServer(backend);
        if (args.length > 2) speakTls(server, Path.of(args[2]));
        Runtime.getRuntime().addShutdownHook(new Thread(server::shutdownNow));
        server.bind("127.0.0.1", Integer.parseInt(args[0]));
    }

    static void speakTls(MongoServer server, Path pem) throws Exception {
        String text = Files.readString(pem);
        byte[] der = Base64.getMimeDecoder().decode(parts(text, "PRIVATE KEY").get(0));
        PrivateKey key = KeyFactory.getInstance("RSA").generatePrivate(new PKCS8EncodedKeySpec(der));
        List<X509Certificate> chain = new ArrayList<>();
        for (String part : parts(text, "CERTIFICATE")) {
            InputStream in = new ByteArrayInputStream(Base64.getMimeDecoder().decode(part));
            chain.add((X509Certificate) CertificateFactory.getInstance("X.509").generateCertificate(in));
        }
        server.enableSsl(key, null, chain.toArray(new X509Certificate[0]));
    }

    static List<String> parts(String text, String kind) {
        List<String> found = new ArrayList<>();
        String begin = "-----BEGIN " + kind + "-----";
        for (int at = text.indexOf(begin); at >= 0; at = text.indexOf(begin, at + 1)) {
            int from = at + begin.length();
            found.add(text.substring(from, text.indexOf("-----END", from)));
        }
        return found;
    }
}
"#;

impl Recipe for MongoDb {
    fn name(&self) -> &'static str {
        "mongodb"
    }

    fn about(&self) -> &'static str {
        "mongo-java-server 1.47.0, which speaks MongoDB's protocol, from Maven Central"
    }

    fn packages(&self) -> &'static [&'static str] {
        &["default-jdk-headless", "maven", "python3", "python3-pip"]
    }

    fn edition(&self) -> &'static str {
        "1.47.0-b"
    }

    fn install(&self, into: &Path) -> Result<(), Error> {
        for (name, package) in [("javac", "default-jdk-headless"), ("mvn", "maven")] {
            if !answers(name, &["--version"]) {
                let remedy = format!("apt-get install {package} brings it");
                return Err(Error::missing(format!("there is no '{name}'"), remedy));
            }
        }
        let said = |e| Error::failed("the installation cannot be written", e);
        fs::write(into.join("pom.xml"), pom()).map_err(said)?;
        fs::write(into.join("Main.java"), MAIN).map_err(said)?;
        let remote = |what: &'static str, error: Error| {
            let what = format!("{what}: {error}");
            Error::missing(what, "connect this machine to it")
        };
        run(Command::new("mvn")
            .args(["-q", "-B", "dependency:copy-dependencies"])
            .arg("-DincludeScope=runtime")
            .arg(format!("-DoutputDirectory={}", into.join("lib").display()))
            .current_dir(into))
        .map_err(|error| remote("mongo-java-server cannot be had from Maven Central", error))?;
        run(Command::new("javac")
            .args(["-cp", "lib/*", "Main.java"])
            .current_dir(into))?;
        run(Command::new(program("python3", "python3")?)
            .args(["-m", "pip", "install", "--quiet", "--target"])
            .arg(into.join("python"))
            .arg(format!("pymongo=={CLIENT}")))
        .map_err(|error| remote("pymongo cannot be had from PyPI", error))?;
        Ok(())
    }

    fn version(&self, installed: &Path) -> Result<String, Error> {
        match installed.join("Main.class").is_file() {
            true => Ok(format!("mongo-java-server {VERSION} (no MongoDB)")),
            false => Err(Error::failed("the installation is not whole", "Main.class")),
        }
    }

    fn launch(&self, place: &Place) -> Result<Command, Error> {
        let at = place.installed().display();
        let mut command = Command::new("java");
        command
            .args(["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"])
            .arg("-cp")
            .arg(format!("{at}:{at}/lib/*"))
            .arg("Main")
            .arg(place.port().to_string())
            .arg(place.data().join("data.mv"));
        if let Some(pem) = place.setting("tls") {
            command.arg(pem);
        }
        Ok(command)
    }

    fn ready(&self, place: &Place) -> Result<(), String> {
        listens(place)
    }

    fn endpoint(&self, place: &Place) -> String {
        format!("mongodb://127.0.0.1:{}/headwater", place.port())
    }
}

fn pom() -> String {
    format!(
        "<project xmlns=\"http://maven.apache.org/POM/4.0.0\"><modelVersion>4.0.0</modelVersion>\
         <groupId>headwater</groupId><artifactId>test-server-mongodb</artifactId><version>1</version>\
         <packaging>pom</packaging><dependencies><dependency><groupId>de.bwaldvogel</groupId>\
         <artifactId>mongo-java-server-h2-backend</artifactId><version>{VERSION}</version>\
         </dependency></dependencies></project>"
    )
}

/// Python with pymongo, an independent client.
///
/// # Errors
/// Those of the installation.
pub fn pymongo() -> Result<Command, Error> {
    let mut command = Command::new(program("python3", "python3")?);
    command.env("PYTHONPATH", installed(&MONGODB)?.join("python"));
    Ok(command)
}
