-- create
CREATE TABLE "shop.Stock" ("symbol" VARCHAR(254) NOT NULL, "order" INTEGER NOT NULL, "volume" BIGINT, "ratio" FLOAT, "price" DOUBLE, "good" TINYINT, "data" BLOB, "note" VARCHAR(100000), PRIMARY KEY ("symbol", "order"))

-- create
CREATE INDEX "Stock_INDEX_1" ON "shop.Stock" ("volume")

-- create
CREATE INDEX "Stock_INDEX_2" ON "shop.Stock" ("price", "good")

-- columns
SELECT name, type FROM pragma_table_info('shop.Stock')

-- unique keys
SELECT '', name FROM pragma_table_info('shop.Stock') WHERE pk > 0 UNION ALL SELECT l.name, coalesce(i.name, '') FROM pragma_index_list('shop.Stock') l, pragma_index_info(l.name) i WHERE l."unique" AND NOT l.partial AND l.origin <> 'pk'

-- begin
BEGIN IMMEDIATE

-- mark
SAVEPOINT part

-- keep
RELEASE SAVEPOINT part

-- undo
ROLLBACK TO SAVEPOINT part; RELEASE SAVEPOINT part

-- room for epochs
CREATE TABLE IF NOT EXISTS headwater_epochs (app TEXT PRIMARY KEY, epoch INTEGER NOT NULL, positions BLOB NOT NULL)

-- epoch asked for
 WHERE …

-- epoch
REPLACE INTO headwater_epochs (app, epoch, positions) VALUES (?1, ?2, ?3)

-- first rows
… ORDER BY x LIMIT 10

-- insert
INSERT INTO "shop.Stock" ("symbol", "order", "volume", "ratio", "price", "good", "data", "note") VALUES 

-- find all
SELECT "symbol", "order", "volume", "ratio", "price", "good", "data", "note" FROM "shop.Stock"

-- contains
SELECT 1 FROM "shop.Stock" WHERE (("symbol" = ?1) AND ("order" = ?2)) LIMIT 1

-- delete
DELETE FROM "shop.Stock" WHERE (("symbol" = ?1) AND ("order" = ?2))

-- update
UPDATE "shop.Stock" SET "price" = ?5, "good" = coalesce(?6, 0), "data" = ?7 WHERE (("symbol" = ?1) AND ("order" = ?2))

-- update by terms
UPDATE "shop.Stock" SET "good" = coalesce("volume" = ?3, 0), "price" = headwater_add_double("price", ?5) WHERE (("symbol" = ?1) AND ("order" = ?2))

-- update or insert
INSERT INTO "shop.Stock" ("symbol", "order", "volume", "ratio", "price", "good", "data", "note") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT ("symbol", "order") DO UPDATE SET "symbol" = ?1, "order" = ?2, "volume" = ?3, "price" = ?5

-- update or insert by terms
INSERT INTO "shop.Stock" ("symbol", "order", "volume", "ratio", "price", "good", "data", "note") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT ("symbol", "order") DO UPDATE SET "good" = coalesce("volume" = ?3, 0), "price" = headwater_add_double("price", ?5)

-- update or insert by no key
UPDATE "shop.Stock" SET "price" = ?5 WHERE ("volume" = ?3)
-- and where nothing was updated
INSERT INTO "shop.Stock" ("symbol", "order", "volume", "ratio", "price", "good", "data", "note") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)

-- equal
SELECT "symbol", "order", "volume", "ratio", "price", "good", "data", "note" FROM "shop.Stock" WHERE ("symbol" = ?1)

-- not equal
SELECT "symbol", "order", "volume", "ratio", "price", "good", "data", "note" FROM "shop.Stock" WHERE coalesce("price" <> ?5, 1)

-- not
SELECT "symbol", "order", "volume", "ratio", "price", "good", "data", "note" FROM "shop.Stock" WHERE (NOT (coalesce("volume" = ?3, 0) OR (NOT coalesce("price" = ?5, 0))))

-- a column of BOOL
SELECT "symbol", "order", "volume", "ratio", "price", "good", "data", "note" FROM "shop.Stock" WHERE ("good" OR (NOT coalesce("good", 0)))

-- a condition as a value
SELECT "symbol", "order", "volume", "ratio", "price", "good", "data", "note" FROM "shop.Stock" WHERE (coalesce("volume" = ?3, 0) = "good")

-- is null
SELECT "symbol", "order", "volume", "ratio", "price", "good", "data", "note" FROM "shop.Stock" WHERE (NOT ("price" IS NULL))

-- contains
SELECT "symbol", "order", "volume", "ratio", "price", "good", "data", "note" FROM "shop.Stock" WHERE ((instr("symbol", ?1) > 0) AND (NOT coalesce(instr("symbol", ?1) > 0, 0)))

-- a text with quotes
SELECT "symbol", "order", "volume", "ratio", "price", "good", "data", "note" FROM "shop.Stock" WHERE ("symbol" = 'o''x\')

-- whole numbers
SELECT "symbol", "order", "volume", "ratio", "price", "good", "data", "note" FROM "shop.Stock" WHERE (((headwater_add_int("order", ?2) > "order") OR (headwater_divide_int("order", ?2) > "order")) OR (headwater_modulo_long("volume", ?3) > "volume"))

-- real numbers
SELECT "symbol", "order", "volume", "ratio", "price", "good", "data", "note" FROM "shop.Stock" WHERE (((headwater_subtract_double("price", ?5) > "price") OR (headwater_multiply_double("price", ?5) > "price")) OR ((headwater_divide_double("price", ?5) > "price") OR (headwater_modulo_double("price", ?5) > "price")))

