-- create
CREATE TABLE shop.Stock (symbol VARCHAR(254) NOT NULL, "order" INTEGER NOT NULL, volume BIGINT, ratio REAL, price DOUBLE PRECISION, good BOOLEAN, data BYTEA, note VARCHAR(100000), PRIMARY KEY (symbol, "order"))

-- create
CREATE INDEX Stock_INDEX_1 ON shop.Stock (volume)

-- create
CREATE INDEX Stock_INDEX_2 ON shop.Stock (price, good)

-- columns
SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = to_regclass('shop.Stock') AND attnum > 0 AND NOT attisdropped ORDER BY attnum

-- unique keys
SELECT i.indexrelid::text, a.attname FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY(i.indkey) WHERE i.indrelid = to_regclass('shop.Stock') AND i.indisunique AND i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL

-- begin
BEGIN

-- mark
SAVEPOINT part

-- keep
RELEASE SAVEPOINT part

-- undo
ROLLBACK TO SAVEPOINT part; RELEASE SAVEPOINT part

-- room for epochs
CREATE TABLE IF NOT EXISTS headwater_epochs (app VARCHAR(254) PRIMARY KEY, epoch BIGINT NOT NULL, positions BYTEA NOT NULL)

-- epoch asked for
 WHERE … FOR UPDATE

-- epoch
INSERT INTO headwater_epochs (app, epoch, positions) VALUES ($1, $2, $3) ON CONFLICT (app) DO UPDATE SET epoch = EXCLUDED.epoch, positions = EXCLUDED.positions

-- first rows
… ORDER BY x LIMIT 10

-- insert
INSERT INTO shop.Stock (symbol, "order", volume, ratio, price, good, data, note) VALUES 

-- find all
SELECT symbol, "order", volume, ratio, price, good, data, note FROM shop.Stock

-- contains
SELECT 1 FROM shop.Stock WHERE ((symbol = $1) AND ("order" = $2)) LIMIT 1

-- delete
DELETE FROM shop.Stock WHERE ((symbol = $1) AND ("order" = $2))

-- update
UPDATE shop.Stock SET price = $5, good = coalesce($6, false), data = $7 WHERE ((symbol = $1) AND ("order" = $2))

-- update by terms
UPDATE shop.Stock SET good = coalesce(volume = $3, false), price = (price::float8 + $5::float8) WHERE ((symbol = $1) AND ("order" = $2))

-- update or insert
INSERT INTO shop.Stock (symbol, "order", volume, ratio, price, good, data, note) VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (symbol, "order") DO UPDATE SET symbol = $1, "order" = $2, volume = $3, price = $5 RETURNING (xmax = 0)

-- update or insert by terms
INSERT INTO shop.Stock (symbol, "order", volume, ratio, price, good, data, note) VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (symbol, "order") DO UPDATE SET good = coalesce(Stock.volume = $3, false), price = (Stock.price::float8 + $5::float8) RETURNING (xmax = 0)

-- update or insert by no key
UPDATE shop.Stock SET price = $5 WHERE (volume = $3)
-- and where nothing was updated
INSERT INTO shop.Stock (symbol, "order", volume, ratio, price, good, data, note) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)

-- equal
SELECT symbol, "order", volume, ratio, price, good, data, note FROM shop.Stock WHERE (symbol = $1)

-- not equal
SELECT symbol, "order", volume, ratio, price, good, data, note FROM shop.Stock WHERE coalesce(price <> $5, true)

-- not
SELECT symbol, "order", volume, ratio, price, good, data, note FROM shop.Stock WHERE (NOT (coalesce(volume = $3, false) OR (NOT coalesce(price = $5, false))))

-- a column of BOOL
SELECT symbol, "order", volume, ratio, price, good, data, note FROM shop.Stock WHERE (good OR (NOT coalesce(good, false)))

-- a condition as a value
SELECT symbol, "order", volume, ratio, price, good, data, note FROM shop.Stock WHERE (coalesce(volume = $3, false) = good)

-- is null
SELECT symbol, "order", volume, ratio, price, good, data, note FROM shop.Stock WHERE (NOT (price IS NULL))

-- contains
SELECT symbol, "order", volume, ratio, price, good, data, note FROM shop.Stock WHERE ((strpos(symbol, $1) > 0) AND (NOT coalesce(strpos(symbol, $1) > 0, false)))

-- a text with quotes
SELECT symbol, "order", volume, ratio, price, good, data, note FROM shop.Stock WHERE (symbol = 'o''x\')

-- whole numbers
SELECT symbol, "order", volume, ratio, price, good, data, note FROM shop.Stock WHERE (((("order"::int4 + $2::int4) > "order") OR (("order"::int4 / NULLIF($2::int4, 0)) > "order")) OR ((volume::int8 % NULLIF($3::int8, 0)) > volume))

-- real numbers
SELECT symbol, "order", volume, ratio, price, good, data, note FROM shop.Stock WHERE ((((price::float8 - $5::float8) > price) OR ((price::float8 * $5::float8) > price)) OR (((price::float8 / NULLIF($5::float8, 0)) > price) OR ((price::float8::numeric % NULLIF($5::float8, 0)::numeric)::float8 > price)))

