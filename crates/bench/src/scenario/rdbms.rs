//! `bench rdbms`: the published FileToRdbms, orders of 300 bytes from a file into MariaDB.

use super::{Command, Done, Scenario, Verified, app, logged_total};
use crate::data;
use crate::site::Site;

pub(super) struct Rdbms;

const TABLE: &str = "PurchesOrderTable";

const APP: &str = r#"@App:name("FileToRdbms")
@store(type='rdbms', jdbc.url='jdbc:mysql://localhost:3306/orders?useSSL=false', username='root', password='root', jdbc.driver.name='com.mysql.jdbc.Driver')
define table PurchesOrderTable (orderID string, numberOfItems int, totalValue double, paymentStatus string, deliveryAddress string);

@source(type='file', mode='line', file.uri='file:orders.csv', tailing='false', action.after.process='MOVE', move.after.process='file:moved',
    @map(type='csv', delimiter=','))
define stream InventoryUpdate (orderID string, numberOfItems int, totalValue double, paymentStatus string, deliveryAddress string);

@async(buffer.size='4096', workers='2', batch.size.max='5000')
define stream IntrimEventStream (orderID string, numberOfItems int, totalValue double, paymentStatus string, deliveryAddress string);

from InventoryUpdate select * insert into IntrimEventStream;

from IntrimEventStream select * insert into PurchesOrderTable;

from InventoryUpdate#window.timeBatch(1 sec) select count() as throughput insert into OutputStream;

from OutputStream#log('TPS: ') insert into TempStream;
"#;

impl Scenario for Rdbms {
    fn name(&self) -> &'static str {
        "rdbms"
    }

    fn about(&self) -> &'static str {
        "FileToRdbms: orders of 300 bytes from a CSV file into MariaDB"
    }

    fn events(&self) -> u64 {
        1_000_000
    }

    fn published(&self) -> Option<(f64, &'static str, &'static str)> {
        None
    }

    fn servers(&self) -> &'static [&'static str] {
        &["mariadb"]
    }

    fn prepare(&self, site: &Site, events: u64) -> anyhow::Result<()> {
        Ok(data::order_lines(&site.path("generated.csv"), events)?)
    }

    fn command(&self, site: &Site) -> anyhow::Result<Command> {
        site.empty("in")?;
        site.empty("moved")?;
        std::fs::hard_link(site.path("generated.csv"), site.path("in/orders.csv"))?;
        site.database("mariadb").drop_tables(&[TABLE])?;
        let (path, app) = app(site, "FileToRdbms.siddhi", APP)?;
        let mut args = vec![path.display().to_string()];
        for (option, value) in [
            ("InventoryUpdate.source.file.uri", site.uri("in/orders.csv")),
            (
                "InventoryUpdate.source.move.after.process",
                site.uri("moved"),
            ),
            ("PurchesOrderTable.store.jdbc.url", site.jdbc_url("mariadb")),
            ("PurchesOrderTable.store.username", "headwater".into()),
            ("PurchesOrderTable.store.password", "headwater".into()),
        ] {
            args.extend(["--set".to_owned(), format!("{option}={value}")]);
        }
        Ok(Command { args, app })
    }

    fn verify(&self, site: &Site, events: u64, done: &Done) -> anyhow::Result<Verified> {
        let mut verified = Verified::new();
        let moved = site.path("moved/orders.csv").exists();
        verified.equal("files_moved", 1, u64::from(moved));
        verified.equal("counted", events, logged_total(&done.lines, "TPS: "));
        let database = site.database("mariadb");
        // Two workers: the order in which rows arrive is not defined.
        let sql = format!(
            "SELECT orderID, numberOfItems, {}, paymentStatus, deliveryAddress FROM {TABLE} \
             ORDER BY orderID",
            database.hundredths("totalValue")
        );
        let expected = data::orders(events).map(|order| {
            let (id, items, cents) = (order.id, order.items, order.cents);
            format!(
                "{id}\t{items}\t{cents}\t{}\t{}",
                order.status, order.address
            )
        });
        verified.same_lines("rows", database.lines(&sql)?, expected)?;
        Ok(verified)
    }
}
