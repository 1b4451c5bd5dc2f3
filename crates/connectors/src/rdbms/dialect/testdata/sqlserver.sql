-- create
CREATE TABLE [shop].[Stock] ([symbol] NVARCHAR(254) COLLATE SQL_Latin1_General_CP1_CS_AS NOT NULL, [order] INTEGER NOT NULL, [volume] BIGINT, [ratio] REAL, [price] FLOAT(32), [good] BIT, [data] VARBINARY(max), [note] NVARCHAR(max) COLLATE SQL_Latin1_General_CP1_CS_AS, PRIMARY KEY ([symbol], [order]))

-- create
CREATE INDEX [Stock_INDEX_1] ON [shop].[Stock] ([volume])

-- create
CREATE INDEX [Stock_INDEX_2] ON [shop].[Stock] ([price], [good])

-- columns
SELECT c.name, t.name FROM sys.columns c JOIN sys.types t ON t.user_type_id = c.user_type_id WHERE c.object_id = OBJECT_ID(N'[shop].[Stock]') ORDER BY c.column_id

-- unique keys
SELECT i.name, c.name FROM sys.indexes i JOIN sys.index_columns k ON k.object_id = i.object_id AND k.index_id = i.index_id JOIN sys.columns c ON c.object_id = k.object_id AND c.column_id = k.column_id WHERE i.object_id = OBJECT_ID(N'[shop].[Stock]') AND i.is_unique = 1 AND i.has_filter = 0 AND k.is_included_column = 0

-- begin
BEGIN TRANSACTION

-- mark
SAVE TRANSACTION part

-- keep
(nothing)

-- undo
ROLLBACK TRANSACTION part

-- room for epochs
IF OBJECT_ID(N'headwater_epochs') IS NULL CREATE TABLE headwater_epochs (app NVARCHAR(254) PRIMARY KEY, epoch BIGINT NOT NULL, positions VARBINARY(max) NOT NULL)

-- epoch asked for
 WITH (UPDLOCK) WHERE …

-- epoch
MERGE INTO headwater_epochs WITH (HOLDLOCK) AS target USING (VALUES (@P1, @P2, @P3)) AS source (app, epoch, positions) ON (target.app = source.app) WHEN MATCHED THEN UPDATE SET epoch = source.epoch, positions = source.positions WHEN NOT MATCHED THEN INSERT (app, epoch, positions) VALUES (source.app, source.epoch, source.positions);

-- first rows
… ORDER BY x OFFSET 0 ROWS FETCH NEXT 10 ROWS ONLY

-- insert
INSERT INTO [shop].[Stock] ([symbol], [order], [volume], [ratio], [price], [good], [data], [note]) VALUES 

-- find all
SELECT [symbol], [order], [volume], [ratio], [price], [good], [data], [note] FROM [shop].[Stock]

-- contains
SELECT TOP 1 1 FROM [shop].[Stock] WHERE (([symbol] = @P1) AND ([order] = @P2))

-- delete
DELETE FROM [shop].[Stock] WHERE (([symbol] = @P1) AND ([order] = @P2))

-- update
UPDATE [shop].[Stock] SET [price] = @P5, [good] = coalesce(@P6, 0), [data] = @P7 WHERE (([symbol] = @P1) AND ([order] = @P2))

-- update by terms
UPDATE [shop].[Stock] SET [good] = CASE WHEN ([volume] = @P3) THEN 1 ELSE 0 END, [price] = ([price] + @P5) WHERE (([symbol] = @P1) AND ([order] = @P2))

-- update or insert
MERGE INTO [shop].[Stock] WITH (HOLDLOCK) AS target USING (VALUES (@P1, @P2, @P3, @P4, @P5, @P6, @P7, @P8)) AS source ([symbol], [order], [volume], [ratio], [price], [good], [data], [note]) ON (target.[symbol] = source.[symbol] AND target.[order] = source.[order]) WHEN MATCHED THEN UPDATE SET [volume] = @P3, [price] = @P5 WHEN NOT MATCHED THEN INSERT ([symbol], [order], [volume], [ratio], [price], [good], [data], [note]) VALUES (source.[symbol], source.[order], source.[volume], source.[ratio], source.[price], source.[good], source.[data], source.[note]) OUTPUT $action;

-- update or insert by terms
MERGE INTO [shop].[Stock] WITH (HOLDLOCK) AS target USING (VALUES (@P1, @P2, @P3, @P4, @P5, @P6, @P7, @P8)) AS source ([symbol], [order], [volume], [ratio], [price], [good], [data], [note]) ON (target.[symbol] = source.[symbol] AND target.[order] = source.[order]) WHEN MATCHED THEN UPDATE SET [good] = CASE WHEN (target.[volume] = @P3) THEN 1 ELSE 0 END, [price] = (target.[price] + @P5) WHEN NOT MATCHED THEN INSERT ([symbol], [order], [volume], [ratio], [price], [good], [data], [note]) VALUES (source.[symbol], source.[order], source.[volume], source.[ratio], source.[price], source.[good], source.[data], source.[note]) OUTPUT $action;

-- update or insert by no key
UPDATE [shop].[Stock] SET [price] = @P5 WHERE ([volume] = @P3)
-- and where nothing was updated
INSERT INTO [shop].[Stock] ([symbol], [order], [volume], [ratio], [price], [good], [data], [note]) VALUES (@P1, @P2, @P3, @P4, @P5, @P6, @P7, @P8)

-- equal
SELECT [symbol], [order], [volume], [ratio], [price], [good], [data], [note] FROM [shop].[Stock] WHERE ([symbol] = @P1)

-- not equal
SELECT [symbol], [order], [volume], [ratio], [price], [good], [data], [note] FROM [shop].[Stock] WHERE (CASE WHEN [price] = @P5 THEN 0 ELSE 1 END = 1)

-- not
SELECT [symbol], [order], [volume], [ratio], [price], [good], [data], [note] FROM [shop].[Stock] WHERE (NOT ((CASE WHEN [volume] = @P3 THEN 1 ELSE 0 END = 1) OR (NOT (CASE WHEN [price] = @P5 THEN 1 ELSE 0 END = 1))))

-- a column of BOOL
SELECT [symbol], [order], [volume], [ratio], [price], [good], [data], [note] FROM [shop].[Stock] WHERE (([good] = 1) OR (NOT (coalesce([good], 0) = 1)))

-- a condition as a value
SELECT [symbol], [order], [volume], [ratio], [price], [good], [data], [note] FROM [shop].[Stock] WHERE (CASE WHEN ([volume] = @P3) THEN 1 ELSE 0 END = [good])

-- is null
SELECT [symbol], [order], [volume], [ratio], [price], [good], [data], [note] FROM [shop].[Stock] WHERE (NOT ([price] IS NULL))

-- contains
SELECT [symbol], [order], [volume], [ratio], [price], [good], [data], [note] FROM [shop].[Stock] WHERE ((CHARINDEX(@P1 COLLATE Latin1_General_BIN2, [symbol] COLLATE Latin1_General_BIN2) > 0 OR (DATALENGTH(@P1) = 0 AND [symbol] IS NOT NULL)) AND (NOT (CASE WHEN (CHARINDEX(@P1 COLLATE Latin1_General_BIN2, [symbol] COLLATE Latin1_General_BIN2) > 0 OR (DATALENGTH(@P1) = 0 AND [symbol] IS NOT NULL)) THEN 1 ELSE 0 END = 1)))

-- a text with quotes
SELECT [symbol], [order], [volume], [ratio], [price], [good], [data], [note] FROM [shop].[Stock] WHERE ([symbol] = N'o''x\')

-- whole numbers
SELECT [symbol], [order], [volume], [ratio], [price], [good], [data], [note] FROM [shop].[Stock] WHERE (((([order] + @P2) > [order]) OR (([order] / NULLIF(@P2, 0)) > [order])) OR (([volume] % NULLIF(@P3, 0)) > [volume]))

-- real numbers
SELECT [symbol], [order], [volume], [ratio], [price], [good], [data], [note] FROM [shop].[Stock] WHERE (((([price] - @P5) > [price]) OR (([price] * @P5) > [price])) OR ((([price] / NULLIF(@P5, 0)) > [price]) OR (([price] - (@P5 * ROUND(([price] / NULLIF(@P5, 0)), 0, 1))) > [price])))

