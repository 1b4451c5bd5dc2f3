-- create
CREATE TABLE `shop`.`Stock` (`symbol` VARCHAR(254) COLLATE latin1_bin NOT NULL, `order` INTEGER NOT NULL, `volume` BIGINT, `ratio` FLOAT, `price` DOUBLE, `good` TINYINT(1), `data` BLOB, `note` LONGTEXT COLLATE latin1_bin, PRIMARY KEY (`symbol`, `order`)) DEFAULT CHARACTER SET utf8mb4

-- create
CREATE INDEX `Stock_INDEX_1` ON `shop`.`Stock` (`volume`)

-- create
CREATE INDEX `Stock_INDEX_2` ON `shop`.`Stock` (`price`, `good`)

-- columns
SELECT column_name, column_type FROM information_schema.columns WHERE table_schema = 'shop' AND table_name = 'Stock' ORDER BY ordinal_position

-- unique keys
SELECT index_name, coalesce(column_name, '') FROM information_schema.statistics WHERE table_schema = 'shop' AND table_name = 'Stock' AND non_unique = 0

-- begin
BEGIN

-- mark
SAVEPOINT part

-- keep
RELEASE SAVEPOINT part

-- undo
ROLLBACK TO SAVEPOINT part; RELEASE SAVEPOINT part

-- room for epochs
CREATE TABLE IF NOT EXISTS headwater_epochs (app VARCHAR(254) PRIMARY KEY, epoch BIGINT NOT NULL, positions LONGBLOB NOT NULL) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin

-- epoch asked for
 WHERE … FOR UPDATE

-- epoch
REPLACE INTO headwater_epochs (app, epoch, positions) VALUES (?, ?, ?)

-- first rows
… ORDER BY x LIMIT 10

-- insert
INSERT INTO `shop`.`Stock` (`symbol`, `order`, `volume`, `ratio`, `price`, `good`, `data`, `note`) VALUES 

-- find all
SELECT `symbol`, `order`, `volume`, `ratio`, `price`, `good`, `data`, `note` FROM `shop`.`Stock`

-- contains
SELECT 1 FROM `shop`.`Stock` WHERE ((`symbol` = ?) AND (`order` = ?)) LIMIT 1

-- delete
DELETE FROM `shop`.`Stock` WHERE ((`symbol` = ?) AND (`order` = ?))

-- update
UPDATE `shop`.`Stock` SET `price` = ?, `good` = coalesce(?, 0), `data` = ? WHERE ((`symbol` = ?) AND (`order` = ?))

-- update by terms
UPDATE `shop`.`Stock` SET `good` = coalesce(`volume` = ?, 0), `price` = (`price` + ?) WHERE ((`symbol` = ?) AND (`order` = ?))

-- update or insert
INSERT INTO `shop`.`Stock` (`symbol`, `order`, `volume`, `ratio`, `price`, `good`, `data`, `note`) VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON DUPLICATE KEY UPDATE `symbol` = VALUES(`symbol`), `order` = VALUES(`order`), `volume` = VALUES(`volume`), `price` = VALUES(`price`)

-- update or insert by terms
INSERT INTO `shop`.`Stock` (`symbol`, `order`, `volume`, `ratio`, `price`, `good`, `data`, `note`) VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON DUPLICATE KEY UPDATE `good` = coalesce(`volume` = ?, 0), `price` = (`price` + ?)

-- update or insert by no key
UPDATE `shop`.`Stock` SET `price` = ? WHERE (`volume` = ?)
-- and where nothing was updated
INSERT INTO `shop`.`Stock` (`symbol`, `order`, `volume`, `ratio`, `price`, `good`, `data`, `note`) VALUES (?, ?, ?, ?, ?, ?, ?, ?)

-- equal
SELECT `symbol`, `order`, `volume`, `ratio`, `price`, `good`, `data`, `note` FROM `shop`.`Stock` WHERE (`symbol` = ?)

-- not equal
SELECT `symbol`, `order`, `volume`, `ratio`, `price`, `good`, `data`, `note` FROM `shop`.`Stock` WHERE coalesce(`price` <> ?, 1)

-- not
SELECT `symbol`, `order`, `volume`, `ratio`, `price`, `good`, `data`, `note` FROM `shop`.`Stock` WHERE (NOT (coalesce(`volume` = ?, 0) OR (NOT coalesce(`price` = ?, 0))))

-- a column of BOOL
SELECT `symbol`, `order`, `volume`, `ratio`, `price`, `good`, `data`, `note` FROM `shop`.`Stock` WHERE (`good` OR (NOT coalesce(`good`, 0)))

-- a condition as a value
SELECT `symbol`, `order`, `volume`, `ratio`, `price`, `good`, `data`, `note` FROM `shop`.`Stock` WHERE (coalesce(`volume` = ?, 0) = `good`)

-- is null
SELECT `symbol`, `order`, `volume`, `ratio`, `price`, `good`, `data`, `note` FROM `shop`.`Stock` WHERE (NOT (`price` IS NULL))

-- contains
SELECT `symbol`, `order`, `volume`, `ratio`, `price`, `good`, `data`, `note` FROM `shop`.`Stock` WHERE ((INSTR(BINARY `symbol`, BINARY ?) > 0) AND (NOT coalesce(INSTR(BINARY `symbol`, BINARY ?) > 0, 0)))

-- a text with quotes
SELECT `symbol`, `order`, `volume`, `ratio`, `price`, `good`, `data`, `note` FROM `shop`.`Stock` WHERE (`symbol` = 'o\'x\\')

-- whole numbers
SELECT `symbol`, `order`, `volume`, `ratio`, `price`, `good`, `data`, `note` FROM `shop`.`Stock` WHERE ((((`order` + ?) > `order`) OR ((`order` DIV ?) > `order`)) OR ((`volume` % ?) > `volume`))

-- real numbers
SELECT `symbol`, `order`, `volume`, `ratio`, `price`, `good`, `data`, `note` FROM `shop`.`Stock` WHERE ((((`price` - ?) > `price`) OR ((`price` * ?) > `price`)) OR (((`price` / ?) > `price`) OR ((`price` % ?) > `price`)))

