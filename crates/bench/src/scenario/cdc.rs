//! `bench cdc`: the published PurchaseOrderSiddhiApp catches up on orders that were written to MariaDB
//! while it was stopped, and sends those to be delivered to Kafka.

use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::Path;

use anyhow::{Context as _, bail};

use super::{Command, Done, Scenario, Verified, app};
use crate::data;
use crate::site::Site;

pub(super) struct Cdc;

/// Rows of one transaction.
const TRANSACTION: u64 = 100_000;

const APP: &str = r#"@App:name("PurchaseOrderSiddhiApp")
@source(type='cdc', url="jdbc:mysql://localhost:3306/order?useSSL=false", username="root", password="root", table.name="PurchesOrders", operation="insert",
    @map(type='keyvalue', fail.on.missing.attribute="false"))
define stream PurchesOrderStream (orderID string, numberOfItems int, totalValue double, paymentStatus string, deliveryAddress string);

@sink(type='kafka', topic='delivery_items_topic', bootstrap.servers='localhost:9092', partition.no='0', @map(type='xml'))
define stream kafkaPublisherStream (orderID string, numberOfItems int, totalPayable double, deliveryAddress string);

@sink(type='log')
define stream publishTps (recCount long);

from PurchesOrderStream[paymentStatus == 'cod' or paymentStatus == 'paid']
select orderID, numberOfItems, ifThenElse(paymentStatus == 'cod', totalValue, 0.0) as totalPayable, deliveryAddress
insert into kafkaPublisherStream;

from PurchesOrderStream#window.timeBatch(1 sec) select count() as recCount insert into publishTps;
"#;

impl Scenario for Cdc {
    fn name(&self) -> &'static str {
        "cdc"
    }

    fn about(&self) -> &'static str {
        "PurchaseOrderSiddhiApp catches up on orders of 300 bytes in MariaDB's log, XML to Kafka"
    }

    fn events(&self) -> u64 {
        1_000_000
    }

    fn published(&self) -> Option<(f64, &'static str, &'static str)> {
        Some((
            12_400.0,
            "rows/s",
            "WSO2 Streaming Integrator 4.0 performance report: 34,330,327 rows in 46 min, 4 cores",
        ))
    }

    fn servers(&self) -> &'static [&'static str] {
        &["kafka", "mariadb"]
    }

    /// The app is run once to see where the log ends, then the orders are written.
    fn prepare(&self, site: &Site, events: u64) -> anyhow::Result<()> {
        let database = site.database("mariadb");
        database.drop_tables(&["PurchesOrders"])?;
        database.ask(
            "CREATE TABLE PurchesOrders (orderID VARCHAR(254), numberOfItems INT, totalValue DOUBLE, \
             paymentStatus VARCHAR(254), deliveryAddress VARCHAR(254)) CHARACTER SET utf8mb4",
        )?;
        site.empty("first")?;
        fs::write(site.path("runs"), "0")?;
        let output = std::process::Command::new(&site.binary)
            .arg("run")
            .args(arguments(site, "first", "unused")?.args)
            .arg("--until-done")
            .output()?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!("the app does not run: {}", said.trim());
        }
        let mut orders = data::orders(events).peekable();
        let part = site.path("part.tsv");
        let load = format!(
            "LOAD DATA LOCAL INFILE '{}' INTO TABLE PurchesOrders CHARACTER SET utf8mb4",
            part.display()
        );
        while orders.peek().is_some() {
            let mut out = BufWriter::new(File::create(&part)?);
            for order in orders.by_ref().take(TRANSACTION as usize) {
                writeln!(out, "{}", order.joined('\t'))?;
            }
            out.flush()?;
            database.ask(&load)?;
        }
        Ok(fs::remove_file(&part)?)
    }

    fn command(&self, site: &Site) -> anyhow::Result<Command> {
        site.empty("state")?;
        copy(&site.path("first"), &site.path("state"))?;
        let run = runs(site)? + 1;
        fs::write(site.path("runs"), run.to_string())?;
        arguments(site, "state", &topic(run))
    }

    fn verify(&self, site: &Site, events: u64, done: &Done) -> anyhow::Result<Verified> {
        let mut verified = Verified::new();
        let source = &done.summary["apps"][0]["sources"][0];
        let read = source["events"].as_u64().unwrap_or_default();
        verified.equal("changes", events, read);
        let delivered = data::orders(events).filter(|order| order.status != "pending");
        let expected = delivered.map(|order| {
            let payable = match order.status {
                "cod" => order.cents as f64 / 100.0,
                _ => 0.0,
            };
            format!(
                "<events><event><orderID>{}</orderID><numberOfItems>{}</numberOfItems>\
                 <totalPayable>{payable:?}</totalPayable><deliveryAddress>{}</deliveryAddress>\
                 </event></events>",
                order.id, order.items, order.address
            )
        });
        verified.same_lines(
            "records",
            site.topic(&topic(runs(site)?)).records(0)?,
            expected,
        )?;
        Ok(verified)
    }
}

/// Each run has a topic of its own.
fn topic(run: u64) -> String {
    format!("delivery_items_{run}")
}

/// How many there were so far.
fn runs(site: &Site) -> anyhow::Result<u64> {
    let text = fs::read_to_string(site.path("runs"))?;
    text.parse().context("the number of runs")
}

fn arguments(site: &Site, state: &str, topic: &str) -> anyhow::Result<Command> {
    let (path, app) = app(site, "PurchaseOrderSiddhiApp.siddhi", APP)?;
    let mut args = vec![
        path.display().to_string(),
        "--state".to_owned(),
        site.path(state).display().to_string(),
    ];
    for (option, value) in [
        ("PurchesOrderStream.source.url", site.jdbc_url("mariadb")),
        ("PurchesOrderStream.source.username", "headwater".into()),
        ("PurchesOrderStream.source.password", "headwater".into()),
        (
            "kafkaPublisherStream.sink.bootstrap.servers",
            site.server("kafka").endpoint(),
        ),
        ("kafkaPublisherStream.sink.topic", topic.into()),
    ] {
        args.extend(["--set".to_owned(), format!("{option}={value}")]);
    }
    Ok(Command { args, app })
}

/// A folder with all that is in it.
fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            fs::create_dir(&to)?;
            copy(&entry.path(), &to)?;
        } else {
            fs::copy(entry.path(), to)?;
        }
    }
    Ok(())
}
