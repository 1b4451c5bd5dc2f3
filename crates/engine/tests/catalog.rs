//! What runs here is known to the catalog, under the same name and with the same argument lists.

use catalog::functions;
use check::Catalog;
use plan::spec::{FunctionSpec, Status};

/// The types of each argument list: `<string> <int>…`.
fn lists(spec: &FunctionSpec) -> Vec<String> {
    let mut lists: Vec<String> = spec
        .overloads
        .iter()
        .map(|o| {
            let params: Vec<String> = o
                .params
                .iter()
                .map(|p| format!("{:?}{}", p.types, if p.constant { " constant" } else { "" }))
                .collect();
            format!(
                "{} repeats {} same {}",
                params.join(", "),
                o.repeats,
                o.same_type
            )
        })
        .collect();
    lists.sort();
    lists
}

#[test]
fn what_runs_is_known() {
    let known = Catalog::new([]);
    let mut faults = Vec::new();
    for spec in headwater_engine::specs() {
        let name = format!("{} '{}'", spec.kind.name(), spec.full_name());
        let Some(other) = known.function(spec.kind, spec.namespace, spec.name) else {
            faults.push(format!("{name} is not in the catalog"));
            continue;
        };
        if spec.status != Status::Runs {
            faults.push(format!("{name} does not say that it runs"));
        }
        if spec.origin != other.origin {
            faults.push(format!(
                "{name} is from '{}', not '{}'",
                other.origin, spec.origin
            ));
        }
        if lists(spec) != lists(other) {
            faults.push(format!(
                "{name} takes\n  {}\nand the catalog has\n  {}",
                lists(spec).join("\n  "),
                lists(other).join("\n  ")
            ));
        }
        if format!("{:?}{:?}", spec.returns, spec.adds)
            != format!("{:?}{:?}", other.returns, other.adds)
        {
            faults.push(format!(
                "{name} returns {:?} {:?}, the catalog has {:?} {:?}",
                spec.returns, spec.adds, other.returns, other.adds
            ));
        }
    }
    assert!(functions::all().count() > 300, "the catalog is read");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
