//! Script functions: `define function f[javascript] return string { … }`, run by QuickJS.
//!
//! Promises: a body is compiled once for each place that calls it; a call may use a bounded amount
//! of time, memory and stack, and one that uses more fails its row alone. `Date` and `Math.random`
//! follow the app's clock and seed, so that a run gives the same again.
//!
//! Never: files, network, modules or timers inside a script; `engine` sees it through
//! [`engine::ScriptEngine`] only.

mod convert;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use check::ScriptFault;
use engine::{Script, ScriptEngine};
use event::Value;
use plan::ScriptFunction;
use rquickjs::function::Args;
use rquickjs::{CatchResultExt as _, CaughtError, Context, Ctx, Function, Runtime};

/// Longest time of one call.
const TIME_MAX: Duration = Duration::from_secs(1);

/// Memory of one function at one place.
const BYTES_MAX: usize = 32 << 20;

/// Stack of one call.
const STACK_MAX: usize = 256 << 10;

/// Puts the app's clock and seed behind `Date` and `Math.random`, and gives back the function that
/// sets them.
const PRELUDE: &str = r"(function () {
  let now = 0, seed = 1;
  const Real = Date;
  const clocked = new Proxy(Real, {
    construct(target, args, self) { return Reflect.construct(target, args.length ? args : [now], self); },
    apply() { return new Real(now).toString(); },
    get(target, name) { return name === 'now' ? () => now : Reflect.get(target, name); },
  });
  Real.prototype.constructor = clocked;
  globalThis.Date = clocked;
  // Mulberry32.
  Math.random = function () {
    seed = (seed + 0x6D2B79F5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
  return function (millis, start) { now = millis; seed = start | 0; };
})()";

/// The languages of scripts that run: JavaScript.
#[derive(Debug)]
pub struct JavaScript;

impl ScriptEngine for JavaScript {
    fn compile(&self, function: &ScriptFunction) -> Result<Box<dyn Script>, String> {
        Ok(Box::new(Compiled::new(function)?))
    }
}

/// What is wrong with a body, if anything.
pub fn fault(body: &str) -> Option<ScriptFault> {
    let found = Engine::new().and_then(|engine| engine.function(body));
    found.err().map(|fault| ScriptFault {
        // The body begins on the line behind that of the wrapper.
        line: fault.line.map_or(0, |line| line.saturating_sub(2)),
        message: fault.message,
    })
}

/// Why a script did not compile or run.
struct Fault {
    message: String,
    /// From 1, of the wrapped text.
    line: Option<u32>,
}

/// Globals under which the two functions are found again; no script writes them by accident.
const BODY: &str = "headwater$body";
const SURROUNDINGS: &str = "headwater$surroundings";

/// One QuickJS of its own.
struct Engine {
    context: Context,
    /// Milliseconds since `start` at which a call is given up.
    deadline: Arc<AtomicU64>,
    start: Instant,
}

impl Engine {
    fn new() -> Result<Engine, Fault> {
        let runtime = Runtime::new().map_err(|e| plain(&e))?;
        runtime.set_memory_limit(BYTES_MAX);
        runtime.set_max_stack_size(STACK_MAX);
        let (start, deadline) = (Instant::now(), Arc::new(AtomicU64::new(u64::MAX)));
        let limit = deadline.clone();
        runtime.set_interrupt_handler(Some(Box::new(move || {
            elapsed(start) >= limit.load(Ordering::Relaxed)
        })));
        let context = Context::full(&runtime).map_err(|e| plain(&e))?;
        let engine = Engine {
            context,
            deadline,
            start,
        };
        engine.keep(SURROUNDINGS, PRELUDE.to_owned())?;
        Ok(engine)
    }

    /// The body as a function of `data`.
    fn function(&self, body: &str) -> Result<(), Fault> {
        self.keep(BODY, format!("(function (data) {{\n{body}\n}})"))
    }

    /// Keeps the function that the text gives.
    fn keep(&self, name: &str, text: String) -> Result<(), Fault> {
        self.context.with(|ctx| {
            let function = ctx
                .eval::<Function<'_>, _>(text)
                .catch(&ctx)
                .map_err(caught)?;
            ctx.globals().set(name, function).map_err(|e| plain(&e))
        })
    }
}

fn elapsed(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX)
}

fn plain(error: &rquickjs::Error) -> Fault {
    Fault {
        message: error.to_string(),
        line: None,
    }
}

fn caught(error: CaughtError<'_>) -> Fault {
    match error {
        CaughtError::Exception(exception) => {
            let place = exception.stack().unwrap_or_default();
            // `    at <eval>:3:5` or `    at f (eval_script:3:5)`.
            let line = place.lines().next().and_then(|at| {
                let mut parts = at.trim_end_matches(')').rsplit(':');
                let last = parts.next()?;
                parts
                    .next()
                    .and_then(|line| line.parse().ok())
                    .or_else(|| last.parse().ok())
            });
            Fault {
                message: exception.message().unwrap_or_default(),
                line,
            }
        }
        CaughtError::Value(value) => Fault {
            message: value
                .as_string()
                .and_then(|text| text.to_string().ok())
                .unwrap_or_else(|| "the script threw a value that is not an error".to_owned()),
            line: None,
        },
        CaughtError::Error(error) => plain(&error),
    }
}

/// A function at one place.
struct Compiled {
    engine: Engine,
    returns: event::Type,
}

impl Compiled {
    fn new(function: &ScriptFunction) -> Result<Compiled, String> {
        let engine = Engine::new().map_err(|fault| fault.message)?;
        engine
            .function(&function.body)
            .map_err(|fault| fault.message)?;
        Ok(Compiled {
            engine,
            returns: function.returns,
        })
    }

    fn run(&self, ctx: &Ctx<'_>, args: &[Value], now: i64, seed: u64) -> Result<Value, Fault> {
        let kept = |name: &str| {
            ctx.globals()
                .get::<_, Function<'_>>(name)
                .map_err(|e| plain(&e))
        };
        kept(SURROUNDINGS)?
            .call::<_, ()>((now as f64, (seed >> 32) as u32 as i32))
            .catch(ctx)
            .map_err(caught)?;
        let data = convert::array(ctx, args).catch(ctx).map_err(caught)?;
        let function = kept(BODY)?;
        let mut call = Args::new(ctx.clone(), 1);
        call.push_arg(data).map_err(|e| plain(&e))?;
        let result: rquickjs::Value<'_> = function.call_arg(call).catch(ctx).map_err(caught)?;
        convert::value(&result, self.returns).map_err(|message| Fault {
            message,
            line: None,
        })
    }
}

impl Script for Compiled {
    fn call(&mut self, args: &[Value], now: i64, seed: &mut u64) -> Result<Value, String> {
        *seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let engine = &self.engine;
        let until = elapsed(engine.start) + TIME_MAX.as_millis() as u64;
        engine.deadline.store(until, Ordering::Relaxed);
        let result = engine.context.with(|ctx| self.run(&ctx, args, now, *seed));
        let is_late = elapsed(engine.start) >= until;
        engine.deadline.store(u64::MAX, Ordering::Relaxed);
        result.map_err(|fault| match fault.message.as_str() {
            "interrupted" if is_late => {
                format!("the script ran longer than {} s", TIME_MAX.as_secs())
            }
            "out of memory" | "" => format!("the script used more than {} MB", BYTES_MAX >> 20),
            message => message.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests;
