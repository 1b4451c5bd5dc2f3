//! What of a row is in the index, and how text becomes words there.

use event::codec::{Reader, Writer};
use event::column::View;
use event::{Type, Value};
use store::definition::Definition;
use store::indexing::Indexing;
use store::rows::Rows;
use tantivy::TantivyDocument;
use tantivy::schema::{
    FAST, Field, INDEXED, IndexRecordOption, STORED, Schema, TextFieldIndexing, TextOptions,
    Value as _,
};
use tantivy::tokenizer::{TextAnalyzer, Token, TokenStream, Tokenizer, TokenizerManager};

use crate::analyze::{keyword, words};
use crate::query::plan::{categories, category_text};

/// The number of the file and the row in it.
pub(super) const PLACE: &str = "place";

/// The number of the row in the table.
pub(super) const ID: &str = "id";

/// By what rows that were replaced are known, where the table has a key.
pub(super) const MARK: &str = "mark";

/// What splits texts into words.
const WORDS: &str = "words";

/// Changes when the same row becomes another document.
const VERSION: u32 = 1;

/// The fields of an index.
pub(crate) struct Fields {
    pub schema: Schema,
    /// The columns that it is made for, in words: another text is another index.
    pub columns: String,
    pub is_keyed: bool,
    place: Field,
    pub id: Field,
    mark: Option<Field>,
    pub file: Field,
    pub timestamp: Field,
    /// Numbers of the columns that have a value.
    pub has: Field,
    of_columns: Vec<Option<OfColumn>>,
    /// The whole row.
    row: Option<Field>,
}

/// The fields of a column.
#[derive(Clone, Copy, Default)]
pub(crate) struct OfColumn {
    pub words: Option<Field>,
    pub whole: Option<Field>,
    pub categories: Option<Field>,
    pub long: Option<Field>,
    pub double: Option<Field>,
}

impl Fields {
    /// `None`: no column of the table is searched.
    pub fn new(definition: &Definition, indexing: &Indexing) -> Option<Fields> {
        let mut schema = Schema::builder();
        let place = schema.add_u64_field(PLACE, FAST);
        let id = schema.add_u64_field(ID, FAST | INDEXED);
        let is_keyed = definition.is_keyed();
        let mark = is_keyed.then(|| schema.add_u64_field(MARK, FAST));
        let file = schema.add_u64_field("file", INDEXED);
        let timestamp = schema.add_i64_field("timestamp", FAST | INDEXED);
        let has = schema.add_text_field("has", raw());
        let mut columns = format!("{VERSION}");
        let mut of_columns = Vec::new();
        for (at, attribute) in definition.schema.attributes.iter().enumerate() {
            let flags = indexing.flags(&attribute.name);
            if !flags.is_searched() {
                of_columns.push(None);
                continue;
            }
            columns.push_str(&format!(" {at}:{}:{}", attribute.name, attribute.ty));
            let mut of = OfColumn::default();
            match attribute.ty {
                Type::String => {
                    of.words = Some(schema.add_text_field(&format!("words{at}"), in_words()));
                    of.whole = Some(schema.add_text_field(&format!("whole{at}"), raw()));
                }
                Type::Bool => {
                    of.words = Some(schema.add_text_field(&format!("words{at}"), in_words()));
                }
                Type::Int | Type::Long => {
                    of.long = Some(schema.add_i64_field(&format!("long{at}"), FAST | INDEXED));
                }
                Type::Float | Type::Double => {
                    of.double = Some(schema.add_f64_field(&format!("double{at}"), FAST | INDEXED));
                }
                Type::Object => {}
            }
            if flags.is_facet {
                columns.push_str(":facet");
                of.categories = Some(schema.add_text_field(&format!("categories{at}"), raw()));
            }
            of_columns.push(Some(of));
        }
        if of_columns.iter().all(Option::is_none) {
            return None;
        }
        let row = indexing.keeps_rows.then(|| {
            columns.push_str(" rows");
            schema.add_bytes_field("row", STORED)
        });
        Some(Fields {
            schema: schema.build(),
            columns,
            is_keyed,
            place,
            id,
            mark,
            file,
            timestamp,
            has,
            of_columns,
            row,
        })
    }

    /// The fields of a column; none where it is not searched.
    pub fn of(&self, column: usize) -> OfColumn {
        self.of_columns
            .get(column)
            .copied()
            .flatten()
            .unwrap_or_default()
    }

    /// What is indexed of a row, which is at a place in a file.
    pub fn document(
        &self,
        rows: &Rows<'_>,
        row: usize,
        (file, place): (u32, u32),
        mark: u64,
    ) -> TantivyDocument {
        let mut document = TantivyDocument::default();
        document.add_u64(self.place, u64::from(file) << 32 | u64::from(place));
        document.add_u64(self.id, rows.ids[row]);
        if let Some(field) = self.mark {
            document.add_u64(field, mark);
        }
        document.add_u64(self.file, u64::from(file));
        document.add_i64(self.timestamp, rows.times[row]);
        if let Some(field) = self.row {
            let mut writer = Writer::default();
            writer.i64(rows.times[row]);
            rows.columns
                .iter()
                .for_each(|cells| writer.value(&cells.value(row)));
            document.add_bytes(field, &writer.bytes);
        }
        for (at, of) in self.of_columns.iter().enumerate() {
            let Some(of) = of else { continue };
            let cells = &rows.columns[at];
            let is_null = cells.is_null(row);
            let text = match cells.view() {
                View::Str(texts) if !is_null => Some(texts.get(row)),
                _ => None,
            };
            if let Some(field) = of.categories {
                let path = categories(category_text(cells, row).as_deref());
                for levels in 1..=path.len() {
                    document.add_text(field, category(&path[..levels]));
                }
            }
            if is_null {
                continue;
            }
            document.add_text(self.has, at.to_string());
            if let (Some(field), Some(text)) = (of.words, text) {
                document.add_text(field, text);
            }
            if let (Some(field), View::Bool(values)) = (of.words, cells.view()) {
                document.add_text(field, values[row].to_string());
            }
            if let (Some(field), Some(text)) = (of.whole, text) {
                document.add_text(field, keyword(text));
            }
            let value = || cells.value(row);
            if let Some(field) = of.long
                && let Some(value) = value().to_long()
            {
                document.add_i64(field, value);
            }
            if let Some(field) = of.double
                && let Some(value) = value().to_double().filter(|value| !value.is_nan())
            {
                // -0 is 0.
                document.add_f64(field, value + 0.0);
            }
        }
        document
    }
}

impl Fields {
    /// Has the index rows as well?
    pub fn keeps_rows(&self) -> bool {
        self.row.is_some()
    }

    /// The time and the values of a row that the index keeps.
    pub fn kept(&self, document: &TantivyDocument) -> Option<(i64, Vec<Value>)> {
        let bytes = document.get_first(self.row?)?.as_bytes()?;
        let mut reader = Reader::new(bytes);
        let time = reader.i64().ok()?;
        let values = self.of_columns.iter().map(|_| reader.value().ok());
        Some((time, values.collect::<Option<_>>()?))
    }
}

/// A category as a term: each level with its length, so that no two are the same.
pub(crate) fn category(path: &[String]) -> String {
    let levels = path.iter().map(|level| format!("{}:{level}", level.len()));
    levels.collect()
}

fn raw() -> TextOptions {
    let indexing = TextFieldIndexing::default()
        .set_tokenizer("raw")
        .set_fieldnorms(false)
        .set_index_option(IndexRecordOption::Basic);
    TextOptions::default().set_indexing_options(indexing)
}

fn in_words() -> TextOptions {
    let indexing = TextFieldIndexing::default()
        .set_tokenizer(WORDS)
        .set_index_option(IndexRecordOption::WithFreqsAndPositions);
    TextOptions::default().set_indexing_options(indexing)
}

/// Makes the words known to an index.
pub(super) fn register(tokenizers: &TokenizerManager) {
    tokenizers.register(WORDS, TextAnalyzer::builder(Words).build());
}

/// Splits a text as [`words`] does.
#[derive(Clone)]
struct Words;

impl Tokenizer for Words {
    type TokenStream<'a> = WordStream;

    fn token_stream<'a>(&'a mut self, text: &'a str) -> WordStream {
        let mut list = String::new();
        let mut ends = Vec::new();
        words(text, &mut |word, _| {
            list.push_str(word);
            ends.push(list.len());
        });
        WordStream {
            list,
            ends,
            at: 0,
            token: Token::default(),
        }
    }
}

/// The words of a text behind each other.
struct WordStream {
    list: String,
    ends: Vec<usize>,
    at: usize,
    token: Token,
}

impl TokenStream for WordStream {
    fn advance(&mut self) -> bool {
        let Some(end) = self.ends.get(self.at) else {
            return false;
        };
        let begin = self.at.checked_sub(1).map_or(0, |before| self.ends[before]);
        self.token.text.clear();
        self.token.text.push_str(&self.list[begin..*end]);
        self.token.position = self.at;
        self.at += 1;
        true
    }

    fn token(&self) -> &Token {
        &self.token
    }

    fn token_mut(&mut self) -> &mut Token {
        &mut self.token
    }
}
