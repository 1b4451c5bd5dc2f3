-- create
CREATE TABLE shop.Stock (symbol VARCHAR(254) NOT NULL, "ORDER" NUMBER(10) NOT NULL, volume NUMBER(19), ratio NUMBER(19,4), price NUMBER(19,4), good NUMBER(1), data BLOB, note CLOB, PRIMARY KEY (symbol, "ORDER"))

-- create
CREATE INDEX Stock_INDEX_1 ON shop.Stock (volume)

-- create
CREATE INDEX Stock_INDEX_2 ON shop.Stock (price, good)

-- columns
SELECT column_name, data_type FROM user_tab_columns WHERE table_name = 'STOCK' ORDER BY column_id

-- unique keys
SELECT i.index_name, c.column_name FROM user_indexes i JOIN user_ind_columns c ON c.index_name = i.index_name WHERE i.table_name = 'STOCK' AND i.uniqueness = 'UNIQUE'

-- begin
SET TRANSACTION READ WRITE

-- mark
SAVEPOINT part

-- keep
(nothing)

-- undo
ROLLBACK TO SAVEPOINT part

-- room for epochs
CREATE TABLE headwater_epochs (app VARCHAR(254) PRIMARY KEY, epoch NUMBER(19) NOT NULL, positions BLOB NOT NULL)

-- epoch asked for
 WHERE … FOR UPDATE

-- epoch
MERGE INTO headwater_epochs target USING (SELECT :1 AS app, :2 AS epoch, :3 AS positions FROM DUAL) source ON (target.app = source.app) WHEN MATCHED THEN UPDATE SET epoch = source.epoch, positions = source.positions WHEN NOT MATCHED THEN INSERT (app, epoch, positions) VALUES (source.app, source.epoch, source.positions)

-- first rows
… ORDER BY x OFFSET 0 ROWS FETCH NEXT 10 ROWS ONLY

-- insert
INSERT INTO shop.Stock (symbol, "ORDER", volume, ratio, price, good, data, note) VALUES 

-- find all
SELECT symbol, "ORDER", volume, ratio, price, good, data, note FROM shop.Stock

-- contains
SELECT 1 FROM shop.Stock WHERE ((symbol = :1) AND ("ORDER" = :2)) FETCH FIRST 1 ROWS ONLY

-- delete
DELETE FROM shop.Stock WHERE ((symbol = :1) AND ("ORDER" = :2))

-- update
UPDATE shop.Stock SET price = :5, good = coalesce(:6, 0), data = :7 WHERE ((symbol = :1) AND ("ORDER" = :2))

-- update by terms
UPDATE shop.Stock SET good = CASE WHEN (volume = :3) THEN 1 ELSE 0 END, price = (price + :5) WHERE ((symbol = :1) AND ("ORDER" = :2))

-- update or insert
MERGE INTO shop.Stock target USING (SELECT :1 AS symbol, :2 AS "ORDER", :3 AS volume, :4 AS ratio, :5 AS price, :6 AS good, :7 AS data, :8 AS note FROM DUAL) source ON (target.symbol = source.symbol AND target."ORDER" = source."ORDER") WHEN MATCHED THEN UPDATE SET volume = :3, price = :5 WHEN NOT MATCHED THEN INSERT (symbol, "ORDER", volume, ratio, price, good, data, note) VALUES (source.symbol, source."ORDER", source.volume, source.ratio, source.price, source.good, source.data, source.note)

-- update or insert by terms
MERGE INTO shop.Stock target USING (SELECT :1 AS symbol, :2 AS "ORDER", :3 AS volume, :4 AS ratio, :5 AS price, :6 AS good, :7 AS data, :8 AS note FROM DUAL) source ON (target.symbol = source.symbol AND target."ORDER" = source."ORDER") WHEN MATCHED THEN UPDATE SET good = CASE WHEN (target.volume = :3) THEN 1 ELSE 0 END, price = (target.price + :5) WHEN NOT MATCHED THEN INSERT (symbol, "ORDER", volume, ratio, price, good, data, note) VALUES (source.symbol, source."ORDER", source.volume, source.ratio, source.price, source.good, source.data, source.note)

-- update or insert by no key
UPDATE shop.Stock SET price = :5 WHERE (volume = :3)
-- and where nothing was updated
INSERT INTO shop.Stock (symbol, "ORDER", volume, ratio, price, good, data, note) VALUES (:1, :2, :3, :4, :5, :6, :7, :8)

-- equal
SELECT symbol, "ORDER", volume, ratio, price, good, data, note FROM shop.Stock WHERE (symbol = :1)

-- not equal
SELECT symbol, "ORDER", volume, ratio, price, good, data, note FROM shop.Stock WHERE (CASE WHEN price = :5 THEN 0 ELSE 1 END = 1)

-- not
SELECT symbol, "ORDER", volume, ratio, price, good, data, note FROM shop.Stock WHERE (NOT ((CASE WHEN volume = :3 THEN 1 ELSE 0 END = 1) OR (NOT (CASE WHEN price = :5 THEN 1 ELSE 0 END = 1))))

-- a column of BOOL
SELECT symbol, "ORDER", volume, ratio, price, good, data, note FROM shop.Stock WHERE ((good = 1) OR (NOT (coalesce(good, 0) = 1)))

-- a condition as a value
SELECT symbol, "ORDER", volume, ratio, price, good, data, note FROM shop.Stock WHERE (CASE WHEN (volume = :3) THEN 1 ELSE 0 END = good)

-- is null
SELECT symbol, "ORDER", volume, ratio, price, good, data, note FROM shop.Stock WHERE (NOT (price IS NULL))

-- contains
SELECT symbol, "ORDER", volume, ratio, price, good, data, note FROM shop.Stock WHERE ((INSTR(symbol, :1) > 0) AND (NOT (CASE WHEN (INSTR(symbol, :1) > 0) THEN 1 ELSE 0 END = 1)))

-- a text with quotes
SELECT symbol, "ORDER", volume, ratio, price, good, data, note FROM shop.Stock WHERE (symbol = 'o''x\')

-- whole numbers
SELECT symbol, "ORDER", volume, ratio, price, good, data, note FROM shop.Stock WHERE (((("ORDER" + :2) > "ORDER") OR (TRUNC("ORDER" / NULLIF(:2, 0)) > "ORDER")) OR (MOD(volume, NULLIF(:3, 0)) > volume))

-- real numbers
SELECT symbol, "ORDER", volume, ratio, price, good, data, note FROM shop.Stock WHERE ((((price - :5) > price) OR ((price * :5) > price)) OR (((price / NULLIF(:5, 0)) > price) OR (MOD(price, NULLIF(:5, 0)) > price)))

