//! The connection to a deployment of MongoDB: commands out, replies in, and the look at the server
//! while a reply takes its time.

use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::io::Write as _;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mongodb::bson::{Bson, Document, doc, serialize_to_document};
use mongodb::error::{Error as DriverError, ErrorKind, Result as DriverResult};
use mongodb::options::{ClientOptions, Tls, TlsOptions};
use mongodb::{Client, Database};
use rustix::fs::{MemfdFlags, memfd_create};
use tokio::time::{sleep, timeout};

use super::row::binary;
use super::target::{Stores, Target};
use connect::error::{Cause, Error};
use connect::net::{KeyStore, Network, system_certificates};

/// How long a connection, and the choice of a server, may take: less than [`LOOK`] and [`PATIENCE`], so
/// that what is said is the driver's reason and not that time has passed.
const CONNECT: Duration = Duration::from_secs(3);

/// How often a server that takes its time is asked whether it is there, and how long it may be silent.
/// Both together are the time in which a lost server is noticed.
const LOOK: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_millis(2500);

/// Connections that one piece of work and the look at the server may need at once.
const CONNECTIONS_MIN: u32 = super::table::QUESTIONS as u32 + 2;

/// Where apps note their epochs.
const EPOCHS: &str = "headwater.epochs";

/// Codes of a server that is not, or no longer, the one to ask: it stops, or another is the primary.
const MOVED: &[i32] = &[6, 7, 89, 91, 189, 262, 10107, 11600, 11602, 13435, 13436];

/// All deployments that tables are kept in.
#[derive(Default)]
pub(crate) struct Servers(Mutex<HashMap<Target, Weak<Mutex<Server>>>>);

impl Servers {
    pub(super) fn find(&self, target: Target, network: &Arc<Network>) -> Shared {
        let mut servers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(server) = servers.get(&target).and_then(Weak::upgrade) {
            return Shared(server);
        }
        servers.retain(|_, server| server.strong_count() > 0);
        let server = Arc::new(Mutex::new(Server {
            network: Arc::clone(network),
            target: target.clone(),
            open: None,
            apps: Vec::new(),
            committed: None,
        }));
        servers.insert(target, Arc::downgrade(&server));
        Shared(server)
    }
}

#[derive(Clone)]
pub(super) struct Shared(Arc<Mutex<Server>>);

impl Shared {
    pub fn lock(&self) -> MutexGuard<'_, Server> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Open {
    database: Database,
    /// As the URI has it, for commands that are put together here.
    write_concern: Option<Document>,
    /// Certificates and keys as the driver reads them again for each connection that it makes.
    _files: Vec<OwnedFd>,
}

pub(super) struct Server {
    network: Arc<Network>,
    target: Target,
    open: Option<Open>,
    /// Apps that keep tables here; each epoch is noted for all of them.
    apps: Vec<String>,
    /// The epoch committed last by this process.
    committed: Option<u64>,
}

impl Server {
    pub fn peer(&self) -> &str {
        &self.target.peer
    }

    pub fn add_app(&mut self, app: &str) {
        if !self.apps.iter().any(|known| known == app) {
            self.apps.push(app.to_owned());
        }
    }

    /// Has work done on the database, on a new connection where there is none. After an outage nothing
    /// of the connection is used again.
    pub fn ask<T, F>(&mut self, work: impl FnOnce(Database) -> F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: Future<Output = DriverResult<T>> + Send + 'static,
    {
        let database = self.database()?;
        let silence = self.target.silence;
        let work = work(database.clone());
        let watched = watched(database, silence, work);
        let done = self.wait_for(watched)?;
        done.map_err(|error| {
            let is_lost = is_lost(&error);
            if is_lost {
                self.open = None;
            }
            self.fault(is_lost, said(&error))
        })
    }

    /// Runs a command that writes, as the URI wants its writes confirmed.
    pub fn write(&mut self, mut command: Document) -> Result<Document, Error> {
        self.database()?;
        let concern = self.open.as_ref().and_then(|o| o.write_concern.clone());
        if let Some(concern) = concern.filter(|_| !command.contains_key("writeConcern")) {
            command.insert("writeConcern", concern);
        }
        let reply = self.ask(|database| async move { database.run_command(command).await })?;
        match reply.get_document("writeConcernError") {
            Ok(error) => {
                let code = error.get_i32("code").unwrap_or_default();
                let cause = error
                    .get_str("errmsg")
                    .unwrap_or("writes are not confirmed");
                Err(self.fault(MOVED.contains(&code), cause))
            }
            Err(_) => Ok(reply),
        }
    }

    /// Notes an epoch for all apps that keep tables here. The majority of a replica set has then all
    /// that was written before.
    pub fn note(&mut self, epoch: u64, positions: &[u8]) -> Result<(), Error> {
        if epoch == 0 || self.committed == Some(epoch) {
            return Ok(());
        }
        let number = i64::try_from(epoch).unwrap_or(i64::MAX);
        let notes = self.apps.iter().map(|app| {
            let note = doc! {"epoch": number, "state": binary(positions.to_vec())};
            doc! {"q": {"_id": app}, "u": {"$set": note}, "upsert": true}
        });
        let notes: Vec<Document> = notes.collect();
        let reply = self.write(doc! {
            "update": EPOCHS,
            "updates": notes,
            "writeConcern": {"w": "majority"},
        })?;
        if let Ok([Bson::Document(error), ..]) = reply.get_array("writeErrors").map(Vec::as_slice) {
            let cause = error.get_str("errmsg").unwrap_or_default();
            return Err(self.fault(false, cause));
        }
        self.committed = Some(epoch);
        Ok(())
    }

    /// The last epoch of an app, and the state that it belongs to.
    pub fn noted(&mut self, app: &str) -> Result<Option<(u64, Vec<u8>)>, Error> {
        let key = doc! {"_id": app};
        let found = self.ask(|database| async move {
            let notes = database.collection::<Document>(EPOCHS);
            notes.find_one(key).await
        })?;
        Ok(found.and_then(|note| {
            let epoch = u64::try_from(note.get_i64("epoch").ok()?).ok()?;
            Some((epoch, note.get_binary_generic("state").ok()?.clone()))
        }))
    }

    pub fn close(&mut self) {
        self.open = None;
        self.committed = None;
    }

    fn fault(&self, is_lost: bool, cause: impl Into<Cause>) -> Error {
        match is_lost {
            true => Error::unavailable(self.peer(), cause),
            false => Error::failed(format!("asking {}", self.peer()), cause),
        }
    }

    fn database(&mut self) -> Result<Database, Error> {
        if let Some(open) = &self.open {
            return Ok(open.database.clone());
        }
        let connection = self
            .target
            .connection()
            .map_err(|cause| self.fault(false, cause))?;
        let mut files = Vec::new();
        let tls = match &self.target.tls {
            None => None,
            Some(stores) => {
                let tls = tls(stores, &mut files).map_err(|cause| self.fault(false, cause))?;
                Some(tls)
            }
        };
        let name = self.target.database.clone();
        let opened = self.wait_for(async move {
            let mut options = ClientOptions::parse(connection).await?;
            if let Some(tls) = tls {
                options.tls = Some(Tls::Enabled(merged(tls, options.tls.take())));
            }
            let at_most = |limit: Option<Duration>| Some(limit.unwrap_or(CONNECT).min(CONNECT));
            options.connect_timeout = at_most(options.connect_timeout);
            options.server_selection_timeout = at_most(options.server_selection_timeout);
            // Else a look at the server would wait for those that it looks after.
            if options.max_pool_size != Some(0) {
                options.max_pool_size = options.max_pool_size.map(|n| n.max(CONNECTIONS_MIN));
            }
            let concern = options.write_concern.as_ref().map(serialize_to_document);
            let concern = concern.transpose()?;
            let client = Client::with_options(options)?;
            Ok((client.database(&name), concern))
        })?;
        let (database, write_concern) =
            opened.map_err(|error: DriverError| self.fault(is_lost(&error), said(&error)))?;
        self.open = Some(Open {
            database: database.clone(),
            write_concern: write_concern.filter(|concern| !concern.is_empty()),
            _files: files,
        });
        Ok(database)
    }

    fn wait_for<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, Error> {
        let workers = self.network.workers();
        let done = workers.and_then(|workers| workers.wait_for(work));
        done.map_err(|error| self.fault(true, error))
    }
}

/// Work with the server looked at as long as it takes: a statement may take its time, but a server that
/// does not answer even a ping meanwhile is lost.
async fn watched<T>(
    database: Database,
    silence: Option<Duration>,
    work: impl Future<Output = DriverResult<T>>,
) -> DriverResult<T> {
    let silent = || DriverError::from(io::Error::from(io::ErrorKind::TimedOut));
    let watch = async {
        loop {
            sleep(LOOK).await;
            match timeout(PATIENCE, database.run_command(doc! {"ping": 1})).await {
                Err(_) => return silent(),
                Ok(Err(error)) if is_lost(&error) => return error,
                Ok(_) => {}
            }
        }
    };
    let limit = async {
        match silence {
            Some(limit) => sleep(limit).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        done = work => done,
        error = watch => Err(error),
        () = limit => Err(silent()),
    }
}

/// Is the server away, or another one to be asked?
fn is_lost(error: &DriverError) -> bool {
    let moved = |code: i32| MOVED.contains(&code);
    match &*error.kind {
        ErrorKind::Io(_)
        | ErrorKind::ConnectionPoolCleared { .. }
        | ErrorKind::ServerSelection { .. }
        | ErrorKind::DnsResolve { .. }
        | ErrorKind::Shutdown => true,
        ErrorKind::Command(error) => moved(error.code),
        ErrorKind::InsertMany(error) => {
            let concern = error.write_concern_error.as_ref();
            concern.is_some_and(|error| moved(error.code))
        }
        _ => false,
    }
}

fn said(error: &DriverError) -> String {
    match &*error.kind {
        ErrorKind::Command(error) => error.message.clone(),
        kind => kind.to_string(),
    }
}

/// Files that the driver can read by name, and that are nowhere but in memory.
fn tls(stores: &Stores, files: &mut Vec<OwnedFd>) -> Result<TlsOptions, String> {
    let mut file = |text: &str| -> io::Result<String> {
        let descriptor = memfd_create("certificates", MemfdFlags::CLOEXEC)?;
        let mut file = std::fs::File::from(descriptor);
        file.write_all(text.as_bytes())?;
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        files.push(file.into());
        Ok(path)
    };
    let said = |error: io::Error| format!("certificates cannot be handed on: {error}");
    let trusted = match &stores.trust {
        Some((path, password)) => KeyStore::trusted(path, password)?,
        None => system_certificates(),
    };
    let trusted: String = trusted.iter().map(|c| pem("CERTIFICATE", c)).collect();
    let mut options = TlsOptions::default();
    options.ca_file_path = Some(file(&trusted).map_err(said)?.into());
    if let Some((path, password)) = &stores.key {
        let store = KeyStore::read(path, password, password)?;
        let identity = store
            .identity
            .ok_or_else(|| format!("key store '{path}' has no private key"))?;
        let chain = identity.chain.iter().map(|c| pem("CERTIFICATE", c));
        let kind = match &identity.key {
            rustls::pki_types::PrivateKeyDer::Pkcs1(_) => "RSA PRIVATE KEY",
            rustls::pki_types::PrivateKeyDer::Sec1(_) => "EC PRIVATE KEY",
            _ => "PRIVATE KEY",
        };
        let text: String = chain
            .chain([pem(kind, identity.key.secret_der())])
            .collect();
        options.cert_key_file_path = Some(file(&text).map_err(said)?.into());
    }
    Ok(options)
}

/// The options of the table's stores, where the URI names no files of its own.
fn merged(own: TlsOptions, of_uri: Option<Tls>) -> TlsOptions {
    let mut options = match of_uri {
        Some(Tls::Enabled(options)) => options,
        _ => TlsOptions::default(),
    };
    options.ca_file_path = options.ca_file_path.or(own.ca_file_path);
    options.cert_key_file_path = options.cert_key_file_path.or(own.cert_key_file_path);
    options
}

fn pem(kind: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let lines = text.as_bytes().chunks(64);
    let lines = lines.map(|line| String::from_utf8_lossy(line).into_owned() + "\n");
    let body: String = lines.collect();
    format!("-----BEGIN {kind}-----\n{body}-----END {kind}-----\n")
}
