//! The bill of materials: every crate in the program and every library of C that one brings along,
//! in the format of CycloneDX 1.5.

use std::path::PathBuf;

use anyhow::ensure;
use serde_json::{Value as Json, json};

use super::Release;
use super::files::{Digesting, hex, sha256_of};
use super::parts::{Bundled, Part, parts};

pub fn make(release: &Release) -> anyhow::Result<PathBuf> {
    let parts = parts(release.features())?;
    let mut json = document(&parts)?;
    json["metadata"]["timestamp"] = json!(release.date("+%Y-%m-%dT%H:%M:%SZ")?);
    let sum = sha256_of(&release.binary.path)?;
    json["metadata"]["component"]["hashes"] = json!([{"alg": "SHA-256", "content": sum}]);
    json["serialNumber"] = json!(serial_number(&json)?);
    let mut bytes = serde_json::to_vec_pretty(&json)?;
    bytes.push(b'\n');
    release.write(&format!("headwater-{}.cdx.json", release.version), &bytes)
}

/// Without what is known of the file of the program.
fn document(parts: &[Part]) -> anyhow::Result<Json> {
    ensure!(!parts.is_empty(), "the program has no parts");
    let (program, libraries) = (&parts[0], &parts[1..]);
    let mut components: Vec<Json> = libraries
        .iter()
        .map(|part| component(part, "library"))
        .collect();
    let mut dependencies = Vec::new();
    for part in parts {
        let needs = part
            .needs
            .iter()
            .filter_map(|id| parts.iter().find(|part| part.id == *id));
        let mut needs: Vec<String> = needs.map(reference).collect();
        if let Some(bundled) = &part.bundled {
            let reference = bundled_reference(bundled);
            components.push(bundled_component(bundled, &reference));
            dependencies.push(json!({"ref": reference, "dependsOn": []}));
            needs.push(reference);
        }
        dependencies.push(json!({"ref": reference(part), "dependsOn": needs}));
    }
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "tools": {"components": [{"type": "application", "name": "cargo xtask dist"}]},
            "component": component(program, "application"),
        },
        "components": components,
        "dependencies": dependencies,
    }))
}

/// How the document speaks of a part: its package URL.
fn reference(part: &Part) -> String {
    format!(
        "pkg:cargo/{}@{}",
        part.name,
        part.version.replace('+', "%2B")
    )
}

fn component(part: &Part, kind: &str) -> Json {
    let mut json = json!({
        "type": kind,
        "bom-ref": reference(part),
        "name": part.name,
        "version": part.version,
        "purl": reference(part),
    });
    if let Some(license) = &part.license {
        json["licenses"] = json!([{"expression": license}]);
    }
    if let Some(text) = &part.description {
        json["description"] = json!(text);
    }
    if let Some(sum) = &part.checksum {
        json["hashes"] = json!([{"alg": "SHA-256", "content": sum}]);
    }
    if let Some(url) = &part.repository {
        json["externalReferences"] = json!([{"type": "vcs", "url": url}]);
    }
    json
}

fn bundled_reference(bundled: &Bundled) -> String {
    format!(
        "pkg:generic/{}@{}",
        bundled.name.to_lowercase(),
        bundled.version
    )
}

fn bundled_component(bundled: &Bundled, reference: &str) -> Json {
    let (vendor, product) = bundled.cpe;
    json!({
        "type": "library",
        "bom-ref": reference,
        "name": bundled.name,
        "version": bundled.version,
        "purl": reference,
        "cpe": format!("cpe:2.3:a:{vendor}:{product}:{}:*:*:*:*:*:*:*", bundled.version),
        "licenses": [{"expression": bundled.license}],
    })
}

/// A UUID that follows from the content, so that the same program has the same document.
fn serial_number(json: &Json) -> anyhow::Result<String> {
    let mut digest = Digesting::new(std::io::sink());
    serde_json::to_writer(&mut digest, json)?;
    let digits: Vec<char> = digest.finish().1.chars().collect();
    // Version 8 (made as its maker likes), variant 1.
    let part = |from: usize, to: usize| digits[from..to].iter().collect::<String>();
    let variant = hex(&[8 | (digits[16] as u8 & 3)])[1..].to_owned();
    Ok(format!(
        "urn:uuid:{}-{}-8{}-{variant}{}-{}",
        part(0, 8),
        part(8, 12),
        part(13, 16),
        part(17, 20),
        part(20, 32)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(name: &str, needs: &[&str]) -> Part {
        Part {
            id: name.into(),
            name: name.into(),
            version: "1.0.0+2.1.0".into(),
            license: Some("MIT".into()),
            description: None,
            repository: None,
            checksum: Some("00".repeat(32)),
            needs: needs.iter().map(|id| (*id).to_owned()).collect(),
            folder: PathBuf::new(),
            bundled: None,
        }
    }

    #[test]
    fn what_is_named_as_needed_is_a_component() {
        let mut kafka = part("rdkafka-sys", &[]);
        kafka.bundled = Some(Bundled {
            name: "librdkafka",
            version: "2.1.0".into(),
            license: "BSD-2-Clause",
            cpe: ("confluent", "librdkafka"),
        });
        let json = document(&[part("headwater", &["rdkafka-sys"]), kafka]).unwrap();
        let references: Vec<&Json> = json["components"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|component| &component["bom-ref"])
            .collect();
        let (sys, library) = (
            "pkg:cargo/rdkafka-sys@1.0.0%2B2.1.0",
            "pkg:generic/librdkafka@2.1.0",
        );
        assert_eq!(references, [sys, library]);
        let dependencies = &json["dependencies"];
        assert_eq!(dependencies[0]["dependsOn"], json!([sys]));
        assert_eq!(dependencies[2]["dependsOn"], json!([library]));
        assert_eq!(json["metadata"]["component"]["name"], "headwater");
    }

    #[test]
    fn the_serial_number_is_a_uuid_that_follows_from_the_content() {
        let number = serial_number(&json!({"a": 1})).unwrap();
        assert_eq!(number, serial_number(&json!({"a": 1})).unwrap());
        assert_ne!(number, serial_number(&json!({"a": 2})).unwrap());
        let uuid = number.strip_prefix("urn:uuid:").unwrap();
        let lengths: Vec<usize> = uuid.split('-').map(str::len).collect();
        assert_eq!(lengths, [8, 4, 4, 4, 12]);
        assert!(uuid.chars().nth(14) == Some('8'), "{uuid}");
        assert!(
            matches!(uuid.chars().nth(19), Some('8' | '9' | 'a' | 'b')),
            "{uuid}"
        );
    }
}
