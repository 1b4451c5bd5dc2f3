//! `headwater run`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use server::config::Config;
use server::deployment::ReadyApp;
use server::feed::Feeds;
use server::http::{HttpOptions, Services};
use server::lines::{LineFormat, Lines};
use server::otlp::{Otlp, OtlpOptions};
use server::process::Process;
use server::tap::Taps;
use server::{Change, Error, RunOptions, Server, Status, StopHandle, deployment};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;

use crate::cli::RunArgs;
use crate::command::watch::Watch;
use crate::command::{check, load_options};
use crate::output::Output;
use crate::progress::{Progress, summary_text};
use crate::service::ServiceManager;

/// Between two saves of the state, unless something says otherwise.
const STATE_INTERVAL: Duration = Duration::from_secs(5);

/// The property that says what each app may hold in memory.
const MEMORY_LIMIT: &str = "memory.limit";

/// How often the progress is looked at.
const LOOK: Duration = Duration::from_millis(100);

pub fn run(args: RunArgs, output: &Output, process: Process) -> anyhow::Result<u8> {
    let http = http_options(&args);
    http.iter().try_for_each(HttpOptions::check)?;
    let Some((apps, config)) = read_apps(&args, output)? else {
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
    let state = state_directory(&args, &config);
    announce(
        &args,
        &apps,
        state.as_deref(),
        state_interval(&args, &config),
    );
    let mut manager = ServiceManager::from_environment();
    manager.starting();
    let otlp = otlp(&args)?;
    if let Some(otlp) = &otlp {
        // Of one process there is one run.
        output.log_export.set(otlp.logs()).ok();
    }
    let started = Server::start(
        apps,
        RunOptions {
            registry: ::connectors::REGISTRY,
            catalog: catalog::full(),
            until_done: args.until_done,
            is_asked: args.http.is_some(),
            state,
            state_interval: state_interval(&args, &config),
            drop_state: args.drop_state,
            memory_max: memory_max(&args, &config)?,
            zone: zone(args.timezone.as_deref())?,
            lines: Arc::new(lines),
            tracer: otlp.as_ref().map(Otlp::tracer),
            config,
            process,
            stop: stop.clone(),
            grace: args.grace,
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
    let pushing = otlp.map(|otlp| otlp.start(Arc::clone(server.metrics())));
    let pushing = pushing.transpose()?;
    let services = Services {
        metrics: Arc::clone(server.metrics()),
        asker: server.asker(),
        feeds: Feeds::new(args.simulation_files.clone()),
        taps: Taps::default(),
        liveness: server.liveness(),
        backups: server.backups(),
    };
    let http = http.map(|options| server::http::serve(&options, services));
    let http = http.transpose()?;
    if let Some(http) = &http {
        tracing::info!(address = %http.address(), "HTTP server is listening (metrics, on-demand \
                                                   queries)");
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
            Status::Reload => reload(&mut server, &args, output, &mut manager),
            status => break status,
        }
        if watch.as_mut().is_some_and(Watch::has_changed) {
            reload(&mut server, &args, output, &mut manager);
        }
    };
    manager.stopping();
    progress.clear();
    let end = server.stop();
    drop(http);
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
            "state is saved"
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

/// Where and for whom `--http` listens.
fn http_options(args: &RunArgs) -> Option<HttpOptions> {
    args.http.map(|address| HttpOptions {
        address,
        hosts: args.http_host.clone(),
        is_insecure: args.insecure,
    })
}

/// What the arguments name, checked; `None` if an app has errors, which have been shown.
fn read_apps(args: &RunArgs, output: &Output) -> anyhow::Result<Option<(Vec<ReadyApp>, Config)>> {
    let options = load_options(&args.change, true)?;
    let texts = deployment::read_texts(&args.apps)?;
    let apps = deployment::load(&texts, &options)?;
    if check::show(&apps, output) {
        return Ok(None);
    }
    let config = options.config.unwrap_or_default();
    let ready = deployment::ready(apps, &config)?;
    Ok(Some((ready, config)))
}

/// Reads the apps again. What cannot run is said, and everything goes on as it was.
fn reload(server: &mut Server, args: &RunArgs, output: &Output, manager: &mut ServiceManager) {
    manager.reloading();
    match try_reload(server, args, output) {
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
    args: &RunArgs,
    output: &Output,
) -> anyhow::Result<Option<Change>> {
    let Some((apps, config)) = read_apps(args, output)? else {
        anyhow::bail!("an app has errors: see above");
    };
    let reload = server.plan_reload(apps, config)?;
    let change = reload.change.clone();
    if change.is_empty() {
        tracing::info!("apps reloaded: nothing has changed");
        return Ok(None);
    }
    tracing::info!(%change, "reloading apps");
    server.reload(reload)?;
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
pub(super) fn zone(argument: Option<&str>) -> anyhow::Result<String> {
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
