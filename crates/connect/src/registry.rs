//! Which technologies a binary has. The binary hands the registry to the server, which knows none.

use plan::spec::{ConnectorKind, ConnectorSpec, Status};
use plan::{Store, Table, Transport};

use crate::component::Connector;
use crate::effect::EffectFunctions;
use crate::mapper;

/// The technologies of a binary.
#[derive(Clone, Copy)]
pub struct Registry {
    pub connectors: &'static [&'static dyn Connector],
    pub effects: &'static [&'static dyn EffectFunctions],
    /// The Cargo feature that brings a component into a build.
    pub feature: fn(&ConnectorSpec) -> &'static str,
}

impl Registry {
    /// Nothing but what is inside an app.
    pub const EMPTY: Registry = Registry {
        connectors: &[],
        effects: &[],
        feature: |_| "full",
    };

    /// The technology that makes a component that runs, as in `@source(type='…')`.
    pub fn find(&self, kind: ConnectorKind, name: &str) -> Option<&'static dyn Connector> {
        let is_it = |spec: &&ConnectorSpec| spec.is_called(kind, name);
        let mut connectors = self.connectors.iter().copied();
        connectors.find(|connector| {
            let mut specs = connector.specs().iter();
            specs.any(|spec| spec.status == Status::Runs && is_it(&spec))
        })
    }

    /// The technology of a function with effects.
    pub fn effect(&self, name: &str) -> Option<(usize, &'static dyn EffectFunctions)> {
        let mut all = self.effects.iter().copied().enumerate();
        all.find(|(_, functions)| functions.has(name))
    }

    /// What is known of a component that this binary has.
    pub fn spec(&self, kind: ConnectorKind, name: &str) -> Option<&'static ConnectorSpec> {
        let connector = self.find(kind, name)?;
        let mut specs = connector.specs().iter();
        specs.find(|spec| spec.is_called(kind, name))
    }

    /// Does it run here? Topics, `#log` and strategies of distribution belong to the server and the
    /// engine.
    pub fn has(&self, spec: &ConnectorSpec) -> bool {
        match spec.kind {
            ConnectorKind::Source | ConnectorKind::Sink | ConnectorKind::Store => {
                spec.name == "inMemory" || self.find(spec.kind, spec.name).is_some()
            }
            ConnectorKind::SourceMapper | ConnectorKind::SinkMapper => {
                mapper::find(spec.name).is_some()
            }
            ConnectorKind::StreamFunction | ConnectorKind::Function => {
                !spec.name.contains(':') || self.effect(spec.name).is_some()
            }
            ConnectorKind::Distribution | ConnectorKind::Annotation => true,
        }
    }

    /// What tells one destination of sinks from another: its type and the options that name it.
    pub fn destination(&self, transport: &Transport) -> String {
        let spec = self.spec(ConnectorKind::Sink, &transport.ty);
        let identity = spec.map_or(&[] as &[_], |spec| spec.identity);
        identity_of(&transport.ty, identity, &transport.options)
    }

    /// What tells one database from another.
    pub fn database(&self, store: &Store) -> String {
        let spec = self.spec(ConnectorKind::Store, &store.ty);
        if spec.is_some_and(|spec| spec.is_one_place) {
            return store.ty.clone();
        }
        let identity = spec.map_or(&[] as &[_], |spec| spec.identity);
        identity_of(&store.ty, identity, &store.options)
    }

    /// What tells apart what apps share by a table that is kept outside: the database, or the table itself
    /// where the store has all tables in one place.
    pub fn shared_by(&self, table: &Table, store: &Store) -> String {
        let spec = self.spec(ConnectorKind::Store, &store.ty);
        match spec.is_some_and(|spec| spec.is_one_place) {
            false => self.database(store),
            true => {
                let name = store.option("table.name").unwrap_or(&table.schema.name);
                format!(
                    "{} {}",
                    store.ty,
                    name.trim().to_lowercase().replace('.', "_")
                )
            }
        }
    }

    /// Transport properties by which a message of a source is found again where it came from.
    pub fn message_key(&self, ty: &str) -> &'static [&'static str] {
        let spec = self.spec(ConnectorKind::Source, ty);
        spec.map_or(&[], |spec| spec.message_key)
    }
}

/// The type and what is written of `identity`; all options where nothing of it is.
fn identity_of(ty: &str, identity: &[&str], options: &[(String, String)]) -> String {
    let written = |name: &&str| {
        let mut options = options.iter();
        options.find(|(key, _)| key == name).map(|(_, v)| v.trim())
    };
    let known: Vec<&str> = identity.iter().filter_map(written).collect();
    match known.is_empty() {
        true => format!("{ty} {options:?}"),
        false => format!("{ty} {}", known.join(" ")),
    }
}
