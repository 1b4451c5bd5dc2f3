//! `headwater run`.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use connect::component::SETTING_DIR;
use gateway::Listener;
use gateway::model::Api;
use gateway::project;
use server::access::{Door, users};
use server::capp;
use server::config::{Config, Extension};
use server::deploy::{Deployer, Deployment, DeploymentFolder};
use server::deployment::{AppText, LoadOptions, ReadyApp};
use server::feed::Feeds;
use server::flight::Flight;
use server::http::{Http, HttpOptions, Services};
use server::lines::{LineFormat, Lines};
use server::otlp::{Otlp, OtlpOptions};
use server::postgres::Postgres;
use server::process::Process;
use server::rejected::Limits;
use server::scripts::{ScriptDefinition, Scripts};
use server::state::DEPLOYED;
use server::tap::Taps;
use server::tls::TlsFiles;
use server::{Change, Error, RunOptions, Server, Status, StopHandle, deployment};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;

use crate::cli::RunArgs;
use crate::command::watch::Watch;
use crate::command::{check, load_options};
use crate::output::Output;
use crate::progress::{Progress, summary_text};
use crate::service::ServiceManager;
use crate::sql::{ScriptFiles, ServedSql};
use crate::upkeep::{Place, PurgeFiles};

/// Between two saves of the state, unless something says otherwise.
const STATE_INTERVAL: Duration = Duration::from_secs(5);

/// Below the directory of an event store: the state, where --state does not name another place.
const STATE: &str = "state";

/// The property that says what each app may hold in memory.
const MEMORY_LIMIT: &str = "memory.limit";

/// How often the progress is looked at.
const LOOK: Duration = Duration::from_millis(100);

pub fn run(mut args: RunArgs, output: &Output, process: Process) -> anyhow::Result<u8> {
    if args.state.is_none() {
        args.state = args.store.as_ref().map(|store| store.join(STATE));
    }
    let options = options(&args, output)?;
    let config = options.config.clone().unwrap_or_default();
    let state = state_directory(&args, &config);
    let http = args
        .http
        .map(|address| listening_options(&args, state.as_deref(), address));
    http.iter().try_for_each(HttpOptions::check)?;
    let postgres = args
        .sql_postgres
        .map(|address| listening_options(&args, state.as_deref(), address));
    postgres.iter().try_for_each(server::postgres::check)?;
    let flight = args
        .sql_flight
        .map(|address| listening_options(&args, state.as_deref(), address));
    flight.iter().try_for_each(server::flight::check)?;
    let asked = http.as_ref().or(postgres.as_ref()).or(flight.as_ref());
    let door = asked.map(door).transpose()?;
    let mut folder = deployment_folder(&args, state.as_deref())?;
    let (script_files, purge_files) = batch_files(&args, output.colour)?;
    let has_scripts = !script_files.is_empty() || !purge_files.is_empty();
    let Some(apps) = read_apps(&args, folder.as_mut(), options, output)? else {
        return Ok(1);
    };
    let stop = StopHandle::default();
    watch_signals(stop.clone())?;
    let format = if args.json {
        LineFormat::Json
    } else {
        LineFormat::Text
    };
    let lines = Lines::new(Box::new(output.lines()), format);
    let mut watch = args.watch.then(|| Watch::new(&args));
    announce(
        &args,
        &apps.ready,
        state.as_deref(),
        state_interval(&args, &config),
    );
    let mut manager = ServiceManager::from_environment();
    manager.starting();
    let zone = zone(args.timezone.as_deref())?;
    let otlp = otlp(&args)?;
    if let Some(otlp) = &otlp {
        // Of one process there is one run.
        output.log_export.set(otlp.logs()).ok();
    }
    let started = Server::start(
        apps.ready,
        RunOptions {
            registry: crate::registry::REGISTRY,
            catalog: catalog::full(),
            until_done: args.until_done,
            is_asked: args.is_asked(),
            state: state.clone(),
            state_interval: state_interval(&args, &config),
            drop_state: args.drop_state,
            drop_state_of: apps.may_drop,
            memory_max: memory_max(&args, &config)?,
            zone: zone.clone(),
            lines: Arc::new(lines),
            tracer: otlp.as_ref().map(Otlp::tracer),
            config,
            process,
            stop: stop.clone(),
            grace: args.grace,
            hidden: output.hidden.clone(),
            apis: (!args.gateway.is_empty()).then_some(apps.apis),
            error_limits: Limits {
                bytes_max: args.errors_max,
                age_max: args.errors_age,
            },
        },
    );
    let mut server = match started {
        // Whoever waits for a store at the start is stopped as a server is.
        Err(Error::Connect { what, message }) if stop.is_stopping() => {
            tracing::warn!(cause = message, "stopped while waiting for {what}");
            return Ok(0);
        }
        started => started?,
    };
    // Before anybody can ask whether the server is ready.
    let listeners = listen(&server, &args)?;
    let pushing = otlp.map(|otlp| otlp.start(Arc::clone(server.metrics())));
    let pushing = pushing.transpose()?;
    let (deployer, orders) = Deployer::new(stop.clone());
    let mut deployment = Deployment::new(folder, state, deployer.clone(), apps.options.clone());
    deployment.set(apps.texts, apps.options);
    let asked_store = args.store.as_deref().filter(|_| door.is_some());
    let scripts = Scripts::new(server.asker(), &zone);
    let running_scripts = match has_scripts {
        false => None,
        true => {
            let files = (script_files, purge_files);
            scripts.set(definitions(files, &server, &zone, &args)?);
            // Of one server there are one set of scripts.
            server.metrics().scripts.set(scripts.clone()).ok();
            Some(scripts.start().context("cannot start a thread")?)
        }
    };
    let search = crate::search::Searching::of_server(asked_store, &args.search, &zone)?;
    let upkeep = Place::of_server(asked_store, &server.shared(), &search, &zone);
    let sql = crate::sql::of_server(asked_store, &args.sql, &search)?;
    let services = Services {
        metrics: Arc::clone(server.metrics()),
        asker: server.asker(),
        feeds: Feeds::new(args.simulation_files.clone(), server.registry()),
        errors: server.errors(),
        registry: server.registry(),
        taps: Taps::default(),
        liveness: server.liveness(),
        backups: server.backups(),
        deployer,
        process,
        sql: sql.http.clone(),
        analytics: crate::search::of_server(asked_store, &search),
        scripts: scripts.clone(),
        store: upkeep.clone(),
        hidden: output.hidden.clone(),
        gateway: server.gateway().cloned(),
    };
    let http = http.as_ref().zip(door.clone());
    let http = http.map(|(options, door)| server::http::serve(options, door, services));
    let http = http.transpose()?;
    let postgres = postgres.as_ref().zip(door.clone());
    let postgres = postgres.map(|(options, door)| serve_postgres(options, door, &sql, output));
    let postgres = postgres.transpose()?;
    let flight = flight.as_ref().zip(door);
    let flight = flight.map(|(options, door)| serve_flight(options, door, &sql, output));
    let flight = flight.transpose()?;
    if let Some(http) = &http {
        say_listening(http);
    }
    let mut progress = Progress::new(output);
    let mut is_begun = false;
    let status = loop {
        if !is_begun && server.has_begun() {
            is_begun = true;
            say_begun(&server, process, args.until_done);
            manager.ready(&server);
        }
        match server.wait(LOOK) {
            Status::Running => {
                progress.show(server.metrics());
                manager.show(&server);
            }
            Status::Restore => server.restore_asked(),
            Status::Reload => {
                reload_tls(http.as_ref(), postgres.as_ref(), flight.as_ref());
                reload(&mut server, &mut deployment, &args, output, &mut manager);
                reload_scripts(&scripts, &server, &zone, &args);
            }
            status => break status,
        }
        if watch.as_mut().is_some_and(Watch::has_changed) {
            reload(&mut server, &mut deployment, &args, output, &mut manager);
            reload_scripts(&scripts, &server, &zone, &args);
        }
        orders.carry_out(|order| {
            let (result, changed) = deployment.carry_out(&mut server, &order);
            // What was written to the folder is no change to be reloaded; what somebody else has is.
            if let Some(watch) = &mut watch {
                watch.note(&changed);
            }
            result
        });
        if let Some(gateway) = server.gateway() {
            gateway.settle();
        }
    };
    drop(orders);
    manager.stopping();
    progress.clear();
    // They write to the store, and to the apps.
    drop(running_scripts);
    // It ends with the file that it is at, before the last answer is given.
    upkeep.stop();
    // Publishers get their answers while the apps still run.
    listeners.into_iter().for_each(Listener::stop);
    let end = server.stop();
    drop(http);
    drop(postgres);
    drop(flight);
    drop(pushing);
    if args.json {
        output.print_json(&end.summary.to_json())?;
    } else {
        let is_whole = args.until_done || output.is_verbose;
        output.print(&summary_text(&end.summary, is_whole))?;
    }
    if let Some(error) = end.error {
        return Err(error.into());
    }
    if let Status::Unreachable(causes) = status {
        return Err(Error::Connect {
            what: "all sources".to_owned(),
            message: causes,
        }
        .into());
    }
    // A server that is stopped has done its work, whatever it has rejected in its life: the service
    // manager would call any other code a failure.
    Ok(match args.until_done && end.summary.rejected > 0 {
        true => 4,
        false => 0,
    })
}

/// How apps are read, and what they are told of the event store.
fn options(args: &RunArgs, output: &Output) -> anyhow::Result<LoadOptions> {
    let secrets = args.change.secrets.secrets(args.state.as_deref(), output);
    let mut options = load_options(&args.change, secrets, true)?;
    if let Some(store) = &args.store {
        let directory = store.display().to_string();
        options
            .config
            .get_or_insert_default()
            .extensions
            .push(Extension {
                namespace: "store".to_owned(),
                name: "eventstore".to_owned(),
                properties: vec![(SETTING_DIR.to_owned(), directory)],
            });
    }
    Ok(options)
}

/// What is about to run. Each source, sink and store says itself when it is ready, and where.
fn announce(args: &RunArgs, apps: &[ReadyApp], state: Option<&Path>, every: Duration) {
    for app in apps {
        let streams = || app.plan.streams.iter();
        tracing::info!(
            app = app.name(),
            sources = streams().map(|s| s.sources.len()).sum::<usize>(),
            sinks = streams().map(|s| s.sinks.len()).sum::<usize>(),
            tables = app.plan.tables.len(),
            "starting app"
        );
    }
    match state {
        Some(directory) => tracing::info!(
            every = format!("{every:?}"),
            directory = %directory.display(),
            "state will be saved"
        ),
        None if args.until_done => {}
        None => tracing::info!("state is not saved: give a directory with --state to keep it"),
    }
}

/// All sources have been connected, or have said why they cannot be.
fn say_begun(server: &Server, process: Process, until_done: bool) {
    let millis = process.millis();
    match server.metrics().not_ready() {
        None => tracing::info!("ready in {millis} ms"),
        // Nobody watches a run that ends for its being ready.
        Some(_) if until_done => {}
        Some(what) => tracing::warn!(
            away = what.replace('\n', " ").trim(),
            "running after {millis} ms, but not ready: what is away is tried again"
        ),
    }
}

/// Where to push metrics, logs and traces; what else is said of it is in the variables that all programs
/// with OpenTelemetry know.
fn otlp(args: &RunArgs) -> anyhow::Result<Option<Otlp>> {
    let Some(endpoint) = args.otlp.clone().filter(|url| !url.trim().is_empty()) else {
        return Ok(None);
    };
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let service = variable("OTEL_SERVICE_NAME");
    let options = OtlpOptions {
        endpoint,
        sample: args.otlp_sample,
        headers: variable("OTEL_EXPORTER_OTLP_HEADERS"),
        service: match service.is_empty() {
            true => "headwater".to_owned(),
            false => service,
        },
        attributes: variable("OTEL_RESOURCE_ATTRIBUTES"),
    };
    Ok(Some(Otlp::new(&options)?))
}

/// For whom `--http` or `--sql-postgres` listens at an address.
fn listening_options(args: &RunArgs, state: Option<&Path>, address: SocketAddr) -> HttpOptions {
    let access = &args.access;
    let tls = access.http_cert.as_ref().zip(access.http_key.as_ref());
    let of_state = || state.map(|dir| dir.join(users::FILE));
    HttpOptions {
        address,
        hosts: args.http_host.clone(),
        is_insecure: access.insecure,
        tls: tls.map(|(certificate, key)| TlsFiles {
            certificate: certificate.clone(),
            key: key.clone(),
        }),
        users: access.users.clone().or_else(of_state),
        has_open_metrics: access.http_open_metrics,
        audit: state.map(Path::to_owned),
    }
}

/// Who may come in at these addresses.
fn door(options: &HttpOptions) -> Result<Door, Error> {
    Door::new(options.users.clone(), options.audit.as_deref())
}

/// Answers SQL by the protocol of PostgreSQL.
fn serve_postgres(
    options: &HttpOptions,
    door: Door,
    sql: &ServedSql,
    output: &Output,
) -> anyhow::Result<Postgres> {
    let engine = match &sql.rows {
        Ok(engine) => Arc::clone(engine),
        Err(why) => return Err(Error::Usage((*why).to_owned()).into()),
    };
    let services = server::postgres::Services {
        engine,
        turns: sql.http.turns(),
        hidden: output.hidden.clone(),
    };
    let needs_login = door.needs_login();
    let postgres = server::postgres::serve(options, door, services)?;
    tracing::info!(
        address = %postgres.address(),
        tls = options.tls.is_some(),
        "SQL is answered by the protocol of PostgreSQL; {}",
        who_may(needs_login)
    );
    Ok(postgres)
}

/// What the gateway proves itself with.
fn tls_of(args: &RunArgs) -> Option<TlsFiles> {
    let (certificate, key) = args.gateway_cert.clone().zip(args.gateway_key.clone())?;
    Some(TlsFiles { certificate, key })
}

/// Takes up a certificate that was renewed. One that cannot be read is no reason to go without the one before.
fn renew_certificate(server: &Server, args: &RunArgs) {
    let Some((gateway, files)) = server.gateway().zip(tls_of(args)) else {
        return;
    };
    match files.listener() {
        Ok(tls) => gateway.set_tls(tls),
        Err(error) => tracing::error!(
            cause = %error,
            "cannot read the certificate of the gateway again; the one before stays"
        ),
    }
}

/// Serves the gateway at each of its addresses.
fn listen(server: &Server, args: &RunArgs) -> anyhow::Result<Vec<Listener>> {
    let Some(gateway) = server.gateway() else {
        return Ok(Vec::new());
    };
    if let Some(files) = tls_of(args) {
        gateway.set_tls(files.listener()?);
    }
    let listen = |address: &SocketAddr| {
        let listening = gateway.listen(*address);
        listening.with_context(|| format!("the gateway cannot listen on {address}"))
    };
    let listeners = args
        .gateway
        .iter()
        .map(listen)
        .collect::<anyhow::Result<Vec<Listener>>>()?;
    for api in gateway.apis() {
        tracing::info!(
            api = api.name,
            version = api.version,
            path = api.bases[0],
            topics = api.topics.len(),
            "API is served"
        );
    }
    Ok(listeners)
}

/// Answers SQL by Flight SQL.
fn serve_flight(
    options: &HttpOptions,
    door: Door,
    sql: &ServedSql,
    output: &Output,
) -> anyhow::Result<Flight> {
    let needs_login = door.needs_login();
    let flight = crate::sql::serve_flight(options, door, sql, &output.hidden)?;
    tracing::info!(
        address = %flight.address(),
        tls = options.tls.is_some(),
        "SQL is answered by Flight SQL; {}",
        who_may(needs_login)
    );
    Ok(flight)
}

/// For a log, who may ask at a door that reads.
fn who_may(needs_login: bool) -> &'static str {
    match needs_login {
        true => "everybody logs in",
        false => "nobody has to log in, and whoever can connect may read all tables",
    }
}

/// A certificate that was renewed counts for the next connections.
fn reload_tls(http: Option<&Http>, postgres: Option<&Postgres>, flight: Option<&Flight>) {
    let doors = [
        http.map(Http::reload_tls),
        postgres.map(Postgres::reload_tls),
        flight.map(Flight::reload_tls),
    ];
    for cause in doors.into_iter().flatten().filter_map(Result::err) {
        tracing::error!(%cause, "cannot reload the certificate of --http; the old one stays in use");
    }
}

/// Where it listens, and who may come.
fn say_listening(http: &Http) {
    let (url, address) = (http.url(), http.address());
    if http.needs_login() {
        tracing::info!(url, %address, "HTTP server is listening; everybody logs in");
        return;
    }
    tracing::info!(
        url,
        %address,
        "HTTP server is listening; nobody has to log in, and whoever can connect may do everything: add \
         users with headwater users"
    );
}

/// Apps that were read and checked.
struct ReadApps {
    texts: Vec<AppText>,
    /// How they were read.
    options: LoadOptions,
    ready: Vec<ReadyApp>,
    /// What documents say.
    apis: Vec<Api>,
    /// Apps whose saved state may be dropped, as was allowed when they were deployed.
    may_drop: BTreeSet<String>,
}

/// What the arguments name, and what was deployed, checked; `None` if an app has errors, which have
/// been shown.
fn read_apps(
    args: &RunArgs,
    folder: Option<&mut DeploymentFolder>,
    options: LoadOptions,
    output: &Output,
) -> anyhow::Result<Option<ReadApps>> {
    let mut texts = Vec::new();
    let mut may_drop = BTreeSet::new();
    let of_folder = folder.as_ref().map(|folder| folder.path().to_owned());
    for path in &args.apps {
        match of_folder.as_ref() == Some(path) {
            // Its apps are read below; a document is not deployed.
            true => texts.extend(deployment::read_files(deployment::find_documents(path)?)?),
            false => texts.extend(deployment::read_all(std::slice::from_ref(path))?),
        }
    }
    if let Some(folder) = folder {
        let deployed = folder.texts()?;
        may_drop = folder.may_drop(&deployed)?;
        texts.extend(deployed);
    }
    // A CApp may have scripts alone.
    let is_empty = texts.is_empty() && capp::find(&args.apps)?.is_empty();
    if is_empty && !args.is_asked() {
        let message = "there is no app to run: name one, or a folder of apps";
        return Err(Error::Usage(message.to_owned()).into());
    }
    let apps = deployment::load(&texts, &options)?;
    if check::show(&apps, output) {
        return Ok(None);
    }
    if args.gateway.is_empty()
        && let Some(api) = apps.iter().find(|app| !app.is_app)
    {
        let message = format!(
            "'{}' is the document of an API: say where it is served with --gateway ADDRESS",
            api.file
        );
        return Err(Error::Usage(message).into());
    }
    let config = options.config.clone().unwrap_or_default();
    let apis = server::apis::apis(&apps);
    let ready = deployment::ready(apps, &config)?;
    Ok(Some(ReadApps {
        texts,
        options,
        ready,
        apis,
        may_drop,
    }))
}

/// Where apps that are deployed over HTTP are kept: the first folder of apps among the arguments, as
/// Streaming Integrator does, or else a folder of the state directory.
fn deployment_folder(
    args: &RunArgs,
    state: Option<&Path>,
) -> anyhow::Result<Option<DeploymentFolder>> {
    let is_folder = |path: &&PathBuf| path.is_dir() && !project::is_project(path);
    let named = args.apps.iter().find(is_folder);
    if let Some(path) = named {
        // Without --http nothing is deployed; a folder without apps is a mistake then.
        return match args.http {
            Some(_) => Ok(Some(DeploymentFolder::open(path, false)?)),
            None => Ok(None),
        };
    }
    let deployed = state.map(|state| state.join(DEPLOYED));
    match deployed.filter(|path| args.http.is_some() || path.is_dir()) {
        Some(path) => Ok(Some(DeploymentFolder::open(&path, true)?)),
        None if args.apps.is_empty() && args.sql_postgres.is_none() && args.sql_flight.is_none() => Err(Error::Usage(
            "there is no app to run: name one, or a folder of apps; or give --state DIR, and deploy \
             apps over HTTP (headwater deploy)"
                .to_owned(),
        )
        .into()),
        None => Ok(None),
    }
}

/// The batch scripts and purges that are named, and those of CApps.
fn batch_files(args: &RunArgs, colour: bool) -> anyhow::Result<(ScriptFiles, PurgeFiles)> {
    let capps = check::capps(&args.apps)?;
    let mut of_capps = capps
        .iter()
        .flat_map(|capp| capp.scripts.iter().chain(&capp.purges));
    if let Some((file, _)) = of_capps.next() {
        let why = match (&args.store, args.until_done) {
            (None, _) => "works on an event store: give --store DIR",
            (_, true) => "runs at its times in a server: leave --until-done out",
            (Some(_), false) => "",
        };
        if !why.is_empty() {
            return Err(Error::Usage(format!("'{file}' of a CApp {why}")).into());
        }
    }
    let scripts = ScriptFiles::read(&args.scripts, &capps, colour)?;
    Ok((scripts, PurgeFiles::read(&args.purges, &capps)?))
}

/// What runs the scripts of these files in a server.
fn definitions(
    (files, purges): (ScriptFiles, PurgeFiles),
    server: &Server,
    zone: &str,
    args: &RunArgs,
) -> anyhow::Result<Vec<ScriptDefinition>> {
    // Without a store there are no scripts.
    let dir = args.store.as_deref().unwrap_or(Path::new(""));
    let limits = (&args.sql, &args.scripts);
    let mut definitions = files.definitions(dir, &server.shared(), zone, limits)?;
    for purge in purges.definitions(dir, &server.shared(), zone) {
        if definitions.iter().any(|other| other.name == purge.name) {
            let message = format!(
                "a purge and another one or a script are named '{}': rename a file",
                purge.name
            );
            return Err(Error::Usage(message).into());
        }
        definitions.push(purge);
    }
    for script in &definitions {
        let cron = script.cron.as_ref().map(|(text, _)| text);
        tracing::info!(script = script.name, cron, "script is ready");
    }
    Ok(definitions)
}

/// Reads the scripts again. If one is wrong, that is said, and all stay as they were.
fn reload_scripts(scripts: &Scripts, server: &Server, zone: &str, args: &RunArgs) {
    let files = batch_files(args, false);
    if let Ok((scripts, purges)) = &files
        && scripts.is_empty()
        && purges.is_empty()
    {
        return;
    }
    match files.and_then(|files| definitions(files, server, zone, args)) {
        Ok(definitions) => scripts.set(definitions),
        Err(error) => tracing::error!(
            cause = format!("{error:#}"),
            "cannot reload scripts; they stay as they were"
        ),
    }
}

/// Reads the apps again. What cannot run is said, and everything goes on as it was.
fn reload(
    server: &mut Server,
    deployment: &mut Deployment,
    args: &RunArgs,
    output: &Output,
    manager: &mut ServiceManager,
) {
    manager.reloading();
    match try_reload(server, deployment, args, output) {
        Ok(Some(change)) => tracing::info!(%change, "apps reloaded"),
        Ok(None) => {}
        Err(error) => tracing::error!(
            cause = format!("{error:#}"),
            "cannot reload apps; the running ones continue unchanged"
        ),
    }
    manager.reloaded(server);
}

/// `None`: nothing has changed.
fn try_reload(
    server: &mut Server,
    deployment: &mut Deployment,
    args: &RunArgs,
    output: &Output,
) -> anyhow::Result<Option<Change>> {
    renew_certificate(server, args);
    let options = options(args, output)?;
    let Some(apps) = read_apps(args, deployment.folder(), options, output)? else {
        anyhow::bail!("an app has errors: see above");
    };
    let config = apps.options.config.clone().unwrap_or_default();
    let mut reload = server.plan_reload(apps.ready, config)?;
    reload.may_drop = apps.may_drop;
    let gateway = server.gateway().cloned();
    let has_new_apis = gateway
        .as_ref()
        .is_some_and(|gateway| !gateway.has_documents(&apps.apis));
    let change = reload.change.clone();
    if change.is_empty() {
        match gateway.filter(|_| has_new_apis) {
            Some(gateway) => {
                tracing::info!(apis = apps.apis.len(), "APIs reloaded");
                gateway.set_documents(apps.apis);
            }
            None => tracing::info!("apps reloaded: nothing has changed"),
        }
        deployment.set(apps.texts, apps.options);
        return Ok(None);
    }
    reload.apis = has_new_apis.then_some(apps.apis);
    tracing::info!(%change, "reloading apps");
    server.reload(reload)?;
    deployment.set(apps.texts, apps.options);
    Ok(Some(change))
}

/// The first signal stops the run in order; the second ends the process at once. SIGHUP has the apps
/// read again. SIGXFSZ would kill the process at the limit of a file's size; watched, it is an error
/// of the write.
fn watch_signals(stop: StopHandle) -> anyhow::Result<()> {
    let mut signals =
        Signals::new([SIGHUP, SIGINT, SIGTERM, SIGXFSZ]).context("cannot watch for signals")?;
    let is_second = AtomicBool::new(false);
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            for signal in signals.forever() {
                match signal {
                    SIGXFSZ => {}
                    SIGHUP => stop.reload(),
                    _ if is_second.swap(true, Ordering::Relaxed) => std::process::exit(1),
                    _ => {
                        let signal = if signal == SIGINT {
                            "SIGINT"
                        } else {
                            "SIGTERM"
                        };
                        tracing::info!(
                            "stopping on {signal}; a second signal ends the process at once"
                        );
                        stop.stop();
                    }
                }
            }
        })
        .context("cannot start a thread")?;
    Ok(())
}

/// `--state`, or the location of `state.persistence` where that is enabled.
fn state_directory(args: &RunArgs, config: &Config) -> Option<PathBuf> {
    let configured = config.persistence.as_ref().filter(|p| p.enabled);
    args.state.clone().or_else(|| {
        let location = configured?.location.as_deref();
        Some(PathBuf::from(location.unwrap_or("siddhi-app-persistence")))
    })
}

/// `--memory-limit`, or the property `memory.limit` of the configuration.
fn memory_max(args: &RunArgs, config: &Config) -> anyhow::Result<Option<u64>> {
    let properties = config.properties.iter();
    let Some((key, text)) = properties.rev().find(|(key, _)| key == MEMORY_LIMIT) else {
        return Ok(args.memory_limit);
    };
    let configured = lang::quantity::size_text(text).ok_or_else(|| {
        Error::Usage(format!(
            "property '{key}' is '{text}', not a size such as 512 MB or 2 GB"
        ))
    })?;
    Ok(args.memory_limit.or(Some(configured)))
}

fn state_interval(args: &RunArgs, config: &Config) -> Duration {
    let configured = config
        .persistence
        .as_ref()
        .and_then(|p| p.interval_minutes)
        .map(|minutes| Duration::from_secs(60 * minutes.max(1)));
    args.state_interval.or(configured).unwrap_or(STATE_INTERVAL)
}

/// The zone of the command line, else the `TZ` of the environment, else UTC.
pub(crate) fn zone(argument: Option<&str>) -> anyhow::Result<String> {
    let zone = match argument {
        Some(zone) => zone.to_owned(),
        None => std::env::var("TZ").unwrap_or_default(),
    };
    if zone.is_empty() || server::clock::is_zone(&zone) {
        return Ok(zone);
    }
    if argument.is_none() {
        tracing::warn!(zone, "TZ is not a known time zone; using UTC");
        return Ok(String::new());
    }
    Err(Error::Usage(format!(
        "there is no time zone '{zone}'; write a name such as Europe/Berlin or UTC"
    ))
    .into())
}
