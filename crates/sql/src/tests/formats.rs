//! Each format is read back.

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::compute::concat_batches;
use datafusion::arrow::ipc::reader::StreamReader;
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::json;

use super::*;
use crate::Question;

fn stored() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a folder");
    let mut writer = Writer::open(dir.path(), &table("T", &COLUMNS, vec![]));
    let mut odd = row(2);
    odd[1] = Value::str("a \"b\",\nü");
    odd[2] = Value::Double(f64::NAN);
    odd[4] = Value::Float(0.1);
    let mut absent = vec![Value::Null; COLUMNS.len()];
    absent[1] = Value::str("");
    writer.insert(&[row(1), odd, absent]);
    writer.close();
    dir
}

const ALL: &str = "select k, name, price, volume, rate, open, extra from t order by _id";

fn answered(format: Format) -> Vec<u8> {
    let dir = stored();
    bytes(&engine(), dir.path(), ALL, format).expect("answered")
}

#[test]
fn json_has_columns_and_rows() {
    let json: Json = serde_json::from_slice(&answered(Format::Json)).expect("JSON");
    let types = json["details"].as_array().expect("columns").iter();
    let types: Vec<Json> = types.map(|column| column["dataType"].clone()).collect();
    let want = ["INT", "STRING", "DOUBLE", "LONG", "FLOAT", "BOOL", "OBJECT"];
    assert_eq!(types, want);
    assert_eq!(json["details"][2]["name"], "Price");
    let want = json!([
        [1, "n1", 0.25, 1_i64 << 33, 0.1, false, "{\"k\":1}"],
        [2, "a \"b\",\nü", "NaN", 2_i64 << 33, 0.1, true, "{\"k\":2}"],
        [null, "", null, null, null, null, null],
    ]);
    assert_eq!(json["records"], want);
}

#[test]
fn ndjson_has_an_object_a_row() {
    let text = String::from_utf8(answered(Format::Ndjson)).expect("a text");
    let rows: Vec<Json> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(rows.len(), 3);
    assert_eq!(rows[0]["Price"], 0.25);
    assert_eq!(rows[1]["name"], "a \"b\",\nü");
    assert_eq!(rows[2]["k"], Json::Null);
}

#[test]
fn csv_tells_nothing_from_an_empty_text() {
    let text = String::from_utf8(answered(Format::Csv)).expect("a text");
    let want = "k,name,Price,volume,rate,open,extra\n\
        1,n1,0.25,8589934592,0.1,false,\"{\"\"k\"\":1}\"\n\
        2,\"a \"\"b\"\",\nü\",NaN,17179869184,0.1,true,\"{\"\"k\"\":2}\"\n\
        ,\"\",,,,,\n";
    assert_eq!(text, want);
}

#[test]
fn arrow_and_parquet_have_the_same_rows() {
    let arrow = answered(Format::Arrow);
    let reader = StreamReader::try_new(arrow.as_slice(), None).expect("a stream");
    let schema = reader.schema();
    let batches: Vec<RecordBatch> = reader.map(|batch| batch.expect("a batch")).collect();
    let arrow = concat_batches(&schema, &batches).expect("rows");
    let parquet = bytes::Bytes::from(answered(Format::Parquet));
    let reader = ParquetRecordBatchReaderBuilder::try_new(parquet).expect("a file");
    let batches: Vec<RecordBatch> = reader
        .build()
        .expect("readable")
        .map(|batch| batch.expect("a batch"))
        .collect();
    let parquet = concat_batches(&schema, &batches).expect("rows");
    let text = |batch: &RecordBatch| {
        let batches = std::slice::from_ref(batch);
        pretty_format_batches(batches).expect("a text").to_string()
    };
    assert_eq!(text(&arrow), text(&parquet));
    assert_eq!((arrow.num_rows(), arrow.num_columns()), (3, 7));
    assert_eq!(arrow.column(6).null_count(), 1);
    assert!(text(&arrow).contains("8589934592"), "{}", text(&arrow));
}

#[test]
fn answers_of_many_blocks_are_whole() {
    let dir = stored();
    let sql =
        "select value, 'row ' || value as text from generate_series(1, 150000) order by value";
    let engine = engine();
    let answer = |format| bytes(&engine, dir.path(), sql, format).expect("answered");
    let json: Json = serde_json::from_slice(&answer(Format::Json)).expect("JSON");
    assert_eq!(json["records"].as_array().map(Vec::len), Some(150_000));
    assert_eq!(json["records"][149_999], json!([150_000, "row 150000"]));
    let csv = String::from_utf8(answer(Format::Csv)).expect("a text");
    assert_eq!(csv.lines().count(), 150_001);
    let arrow = answer(Format::Arrow);
    let reader = StreamReader::try_new(arrow.as_slice(), None).expect("a stream");
    let rows: usize = reader.map(|batch| batch.expect("rows").num_rows()).sum();
    assert_eq!(rows, 150_000);
    let parquet = bytes::Bytes::from(answer(Format::Parquet));
    let reader = ParquetRecordBatchReaderBuilder::try_new(parquet).expect("a file");
    assert!(reader.metadata().num_row_groups() > 1);
    assert_eq!(reader.metadata().file_metadata().num_rows(), 150_000);
}

#[test]
fn an_answer_without_rows_has_its_columns() {
    let dir = stored();
    let engine = engine();
    let none = "select k, name from t where k = 77";
    let answer = |format| bytes(&engine, dir.path(), none, format).expect("answered");
    let text = |format| String::from_utf8(answer(format)).expect("a text");
    assert_eq!(text(Format::Csv), "k,name\n");
    assert_eq!(text(Format::Ndjson), "");
    let json: Json = serde_json::from_slice(&answer(Format::Json)).expect("JSON");
    assert_eq!(json["details"].as_array().map(Vec::len), Some(2));
    assert_eq!(json["records"], json!([]));
    let arrow = answer(Format::Arrow);
    let reader = StreamReader::try_new(arrow.as_slice(), None).expect("a stream");
    assert_eq!(reader.schema().fields().len(), 2);
    let parquet = bytes::Bytes::from(answer(Format::Parquet));
    let reader = ParquetRecordBatchReaderBuilder::try_new(parquet).expect("a file");
    assert_eq!(reader.schema().fields().len(), 2);
}

#[test]
fn pages_are_whole_documents_of_so_many_rows() {
    let (dir, engine) = (stored(), engine());
    let pages = |sql: &str, format: Format, page_rows: usize| {
        let mut answer = engine.answer(Question {
            store: dir.path().to_owned(),
            sql: sql.to_owned(),
            format,
            page_rows: std::num::NonZero::new(page_rows),
            time: None,
        });
        let (mut pages, mut open, mut rows) = (Vec::new(), Vec::new(), 0);
        while let Some(block) = answer.blocking_recv() {
            let block = block.expect("answered");
            open.extend_from_slice(&block.bytes);
            rows += block.rows;
            if block.ends_page {
                pages.push(String::from_utf8_lossy(&std::mem::take(&mut open)).into_owned());
            }
        }
        assert!(open.is_empty(), "the last page ends as well");
        (pages, rows)
    };
    let sql = "select k from t order by k";
    let (of_two, rows) = pages(sql, Format::Csv, 2);
    assert_eq!(
        (&of_two[..], rows),
        (&["k\n1\n2\n".to_owned(), "k\n\n".to_owned()][..], 3)
    );
    // As many as there are: no empty page behind it.
    assert_eq!(pages(sql, Format::Csv, 3).0.len(), 1);
    let (none, rows) = pages("select k from t where false", Format::Csv, 2);
    assert_eq!((&none[..], rows), (&["k\n".to_owned()][..], 0));
    for page in pages(sql, Format::Json, 1).0 {
        let json: Json = serde_json::from_str(&page).expect("JSON");
        assert_eq!(json["records"].as_array().map(Vec::len), Some(1));
    }
    let (many, rows) = pages(
        "select * from generate_series(1, 100000)",
        Format::Csv,
        30_000,
    );
    assert_eq!((many.len(), rows), (4, 100_000));
}

#[test]
fn a_statement_says_how_many_rows_it_has_read() {
    let (dir, engine) = (stored(), engine());
    let mut answer = engine.ask(
        dir.path(),
        "select count(distinct name) from t",
        Format::Csv,
    );
    let progress = answer.progress();
    while answer.blocking_recv().is_some() {}
    assert_eq!(
        (progress.rows_read(), progress.rows_to_read()),
        (3, Some(3))
    );
}
