//! Each request of DAS with its answer.

use serde_json::{Value as Json, json};

use super::{SCHEMA, Writer, asked, books, search, table};
use crate::Search;

/// Three books in a file and two in memory.
struct Place {
    search: Search,
    _writer: Writer,
    _dir: tempfile::TempDir,
}

impl Place {
    fn new(key: Vec<usize>) -> Place {
        let dir = tempfile::tempdir().expect("a folder");
        let table = table("org.docs", key, SCHEMA);
        let (first, rest) = (books()[..3].to_vec(), books()[3..].to_vec());
        let mut writer = Writer::open(dir.path(), &table);
        writer.insert(&first);
        writer.close();
        let mut writer = Writer::open(dir.path(), &table);
        writer.time = 4_000;
        writer.insert(&rest);
        Place {
            search: search(dir.path()),
            _writer: writer,
            _dir: dir,
        }
    }

    #[track_caller]
    fn get(&self, route: &'static str, more: &[(&str, &str)]) -> Json {
        let (status, json) = asked(&self.search, "GET", route, more, "");
        assert_eq!(status, 200, "{json}");
        json
    }

    #[track_caller]
    fn post(&self, route: &'static str, body: &Json) -> Json {
        let (status, json) = asked(&self.search, "POST", route, &[], &body.to_string());
        assert_eq!(status, 200, "{json}");
        json
    }

    /// The first column of what is found.
    #[track_caller]
    fn found(&self, route: &'static str, body: &Json) -> Vec<i64> {
        let records = self.post(route, body);
        let records = records.as_array().expect("records").iter();
        records
            .map(|record| record["values"]["k"].as_i64().expect("a number"))
            .collect()
    }

    #[track_caller]
    fn refused(
        &self,
        verb: &'static str,
        route: &'static str,
        more: &[(&str, &str)],
        body: &Json,
    ) -> (u16, String) {
        let (status, json) = asked(&self.search, verb, route, more, &body.to_string());
        assert_eq!(json["status"], "failed", "{json}");
        (status, json["message"].as_str().expect("a text").to_owned())
    }
}

const T: (&str, &str) = ("table", "Org.Docs");

#[test]
fn tables_and_stores_are_listed() {
    let place = Place::new(vec![]);
    assert_eq!(place.get("/analytics/tables", &[]), json!(["ORG_DOCS"]));
    assert_eq!(
        place.get("/analytics/table_exists", &[("table", "org_docs")]),
        json!({"status": "success", "message": "Table : org_docs exists."})
    );
    let (status, json) = asked(
        &place.search,
        "GET",
        "/analytics/table_exists",
        &[("table", "x")],
        "",
    );
    assert_eq!(
        (status, json),
        (
            404,
            json!({"status": "non-existent", "message": "Table : x does not exist."})
        )
    );
    assert_eq!(
        place.get("/analytics/recordstores", &[]),
        json!(["EVENT_STORE"])
    );
    assert_eq!(
        place.get("/analytics/recordstore", &[T]),
        json!("EVENT_STORE")
    );
    let store = |name: &'static str| {
        asked(
            &place.search,
            "GET",
            "/analytics/pagination/{store}",
            &[("store", name)],
            "",
        )
    };
    assert_eq!(
        store("EVENT_STORE"),
        (
            200,
            json!({"status": "success", "message": "RecordStore : EVENT_STORE support pagination."})
        )
    );
    assert_eq!(
        store("X"),
        (
            404,
            json!({"status": "non-existent", "message": "RecordStore : X does not support pagination."})
        )
    );
    assert_eq!(
        place.get("/analytics/tables/{table}/recordcount", &[T]),
        json!(5)
    );
    assert_eq!(
        place
            .get("/analytics/tables/{table}/persistName", &[T])
            .as_str()
            .map(str::len),
        Some("ANX".len() + 12)
    );
    assert_eq!(
        place.get("/analytics/indexing_done", &[("timeout", "10")]),
        json!({"status": "success", "message": "Indexing Completed successfully"})
    );
}

#[test]
fn records_are_read_by_their_times() {
    let place = Place::new(vec![]);
    let ks = |json: Json| -> Vec<i64> {
        let records = json.as_array().expect("records").iter();
        records
            .map(|record| record["values"]["k"].as_i64().expect("a number"))
            .collect()
    };
    let all = place.get("/analytics/tables/{table}", &[T]);
    assert_eq!(
        serde_json::to_string(&all[4]).expect("text"),
        r#"{"id":"5","tableName":"ORG_DOCS","timestamp":5000,"values":{"k":5,"title":"quick, quick, quick!","region":"","n":5,"size":42949672960,"rate":16.0,"price":16.0,"open":false}}"#
    );
    assert_eq!(ks(all), [1, 2, 3, 4, 5]);
    let of =
        |route: &'static str, more: &[(&str, &str)]| ks(place.get(route, &[&[T], more].concat()));
    assert_eq!(
        of("/analytics/tables/{table}/{from}", &[("from", "2000")]),
        [2, 3, 4, 5]
    );
    let to = [("from", "2000"), ("to", "4000")];
    assert_eq!(of("/analytics/tables/{table}/{from}/{to}", &to), [2, 3]);
    let start = [("from", "0"), ("to", "9000"), ("start", "1")];
    assert_eq!(
        of("/analytics/tables/{table}/{from}/{to}/{start}", &start),
        [2, 3, 4, 5]
    );
    for (count, want) in [("2", &[2, 3][..]), ("-1", &[2, 3, 4, 5]), ("0", &[])] {
        let more = [&start[..], &[("count", count)]].concat();
        assert_eq!(
            of(
                "/analytics/tables/{table}/{from}/{to}/{start}/{count}",
                &more
            ),
            want
        );
    }
    let some = place.get("/analytics/tables/{table}", &[T, ("columns", "N, title")]);
    assert_eq!(
        some[0]["values"],
        json!({"n": 1, "title": "The quick brown fox"})
    );
    let route = "/analytics/tables/{table}/{from}";
    let (status, message) = place.refused("GET", route, &[T, ("from", "x")], &json!({}));
    assert_eq!(
        (status, message.as_str()),
        (400, "'x' in the place of {from} is not a whole number")
    );
    let (status, message) = place.refused(
        "GET",
        "/analytics/tables/{table}",
        &[("table", "none")],
        &json!({}),
    );
    assert_eq!(
        (status, message.as_str()),
        (404, "Table : none does not exist.")
    );
}

#[test]
fn records_are_looked_up_by_their_keys() {
    let route = "/analytics/tables/{table}/keyed_records";
    let place = Place::new(vec![0]);
    let body = json!({"valueBatches": [{"k": 2}, {"K": 5}, {"k": 9}], "columns": ["n"]});
    let (status, found) = asked(&place.search, "POST", route, &[T], &body.to_string());
    assert_eq!(status, 200, "{found}");
    assert_eq!(found[0]["values"], json!({"n": 2}));
    assert_eq!(
        (found[1]["id"].as_str(), found.as_array().map(Vec::len)),
        (Some("5"), Some(2))
    );
    for wrong in [json!({"n": 2}), json!({"k": "2"}), json!({"k": 2, "n": 2})] {
        let (status, message) =
            place.refused("POST", route, &[T], &json!({"valueBatches": [wrong]}));
        assert_eq!(status, 400);
        assert!(
            message.contains("of the primary keys k, and no others"),
            "{message}"
        );
    }
    let plain = Place::new(vec![]);
    let (status, message) = plain.refused("POST", route, &[T], &body);
    assert_eq!(
        (status, message.as_str()),
        (400, "table 'Org.Docs' has no primary keys")
    );
}

#[test]
fn schemas_are_read_and_set() {
    let route = "/analytics/tables/{table}/schema";
    let place = Place::new(vec![0]);
    let schema = place.get(route, &[T]);
    assert_eq!(
        schema["columns"]["region"],
        json!({"type": "STRING", "isScoreParam": false, "isIndex": true, "isFacet": true})
    );
    assert_eq!(schema["columns"]["size"]["type"], "LONG");
    assert_eq!(schema["primaryKeys"], json!(["k"]));
    let set = |body: &Json| asked(&place.search, "POST", route, &[T], &body.to_string());
    // What was read can be set, and is then the same.
    assert_eq!(
        set(&schema),
        (
            200,
            json!({"status": "success", "message": "Successfully set table schema for table: Org.Docs"})
        )
    );
    assert_eq!(place.get(route, &[T]), schema);
    for (column, says) in [
        (
            json!({"nothing": {"type": "STRING"}}),
            "no column 'nothing'",
        ),
        (json!({"n": {"type": "STRING"}}), "column 'n' is INTEGER"),
        (
            json!({"n": {"isIndex": 1}}),
            "'isIndex' of column 'n' must be true or false",
        ),
        (
            json!({"title": {"isScoreParam": true}}),
            "cannot be a score parameter",
        ),
    ] {
        let (status, message) = place.refused("POST", route, &[T], &json!({"columns": column}));
        assert!(status == 400 && message.contains(says), "{message}");
    }
    let (_, message) = place.refused("POST", route, &[T], &json!({"primaryKeys": ["n"]}));
    assert!(message.contains("do not change"), "{message}");
    assert_eq!(
        set(&json!({"columns": {"region": {"type": "FACET"}}})).0,
        200
    );
    assert_eq!(place.get(route, &[T])["columns"]["region"]["isFacet"], true);
    assert_eq!(place.get(route, &[T])["columns"]["title"]["isIndex"], false);
    let (status, _) = place.refused(
        "POST",
        "/analytics/search",
        &[],
        &json!({"tableName": "org.docs", "query": "title:a"}),
    );
    assert_eq!(status, 400);
}

#[test]
fn indexes_are_made_again() {
    let place = Place::new(vec![]);
    let of = |verb, route| asked(&place.search, verb, route, &[T], "");
    let done = |message: &str| (200, json!({"status": "success", "message": message}));
    assert_eq!(
        of("POST", "/analytics/tables/{table}"),
        done("Successfully started re-indexing for table: Org.Docs")
    );
    assert_eq!(
        of("DELETE", "/analytics/tables/{table}/indexData"),
        done("Successfully cleared indices in table: Org.Docs")
    );
    assert_eq!(
        of("DELETE", "/analytics/tables/{table}/schema-invalidate"),
        done("Successfully clear cache for table: Org.Docs")
    );
    let count = place.post(
        "/analytics/search_count",
        &json!({"tableName": "ORG_DOCS", "query": "title:quick"}),
    );
    assert_eq!(count, json!(3));
}

#[test]
fn rows_are_searched() {
    let place = Place::new(vec![]);
    let search = |more: Json| {
        let mut body = json!({"tableName": "org.docs"});
        for (name, value) in more.as_object().expect("an object") {
            body[name] = value.clone();
        }
        place.found("/analytics/search", &body)
    };
    // By how well they fit: three times in three words before once in four or five.
    assert_eq!(search(json!({"query": "title:quick"}))[0], 5);
    assert_eq!(search(json!({"query": ""})), [1, 2, 3, 4, 5]);
    assert_eq!(
        search(json!({"query": "*:*", "start": 1, "count": 2})),
        [2, 3]
    );
    assert_eq!(search(json!({"query": "*:*", "count": 0})), [0_i64; 0]);
    let by = |field: &str, ty: &str| json!({"query": "*:*", "sortBy": [{"field": field, "sortType": ty}]});
    assert_eq!(search(by("price", "DESC")), [5, 4, 3, 1, 2]);
    assert_eq!(search(by("title", "ASC")), [2, 3, 4, 1, 5]);
    assert_eq!(search(by("_timestamp", "DESC")), [5, 4, 3, 2, 1]);
    let two = json!({"query": "*:*", "sortBy": [
        {"field": "open", "sortType": "DESC"}, {"field": "n", "sortType": "DESC"},
    ]});
    assert_eq!(search(two), [4, 2, 5, 3, 1]);
    let records = place.post(
        "/analytics/search",
        &json!({"tableName": "org.docs", "query": "n:1", "columns": ["title", "k"]}),
    );
    assert_eq!(
        records.to_string(),
        r#"[{"id":"1","tableName":"ORG_DOCS","timestamp":1000,"values":{"title":"The quick brown fox","k":1}}]"#
    );
    let count = |query: &str| {
        place.post(
            "/analytics/search_count",
            &json!({"tableName": "org.docs", "query": query}),
        )
    };
    assert_eq!(count("title:\"brown fox\" OR n:[4 TO *]"), json!(3));
    assert_eq!(count(""), json!(5));
}

#[test]
fn what_is_wrong_with_a_search_is_said() {
    let place = Place::new(vec![]);
    let sort = |field: &str, ty: &str| json!([{"field": field, "sortType": ty}]);
    for (body, status, says) in [
        (json!({"query": "a"}), 400, "'tableName' is missing"),
        (
            json!({"tableName": "none", "query": "a:b"}),
            404,
            "Table : none does not exist.",
        ),
        (
            json!({"tableName": "org.docs", "query": "fox"}),
            400,
            "Invalid query, a term must have a field",
        ),
        (
            json!({"tableName": "org.docs", "query": "n:x"}),
            400,
            "Invalid query, the field 'n' must contain integers",
        ),
        (
            json!({"tableName": "org.docs", "query": 5}),
            400,
            "'query' must be a text",
        ),
        (
            json!({"tableName": "org.docs", "count": -1}),
            400,
            "'count' must be a whole number",
        ),
        (
            json!({"tableName": "org.docs", "count": 1_000_000}),
            400,
            "100000 rows at most",
        ),
        (
            json!({"tableName": "org.docs", "columns": ["titel"]}),
            400,
            "did you mean 'title'?",
        ),
        (
            json!({"tableName": "org.docs", "sortBy": sort("x", "ASC")}),
            400,
            "has no column 'x'",
        ),
        (
            json!({"tableName": "org.docs", "sortBy": sort("n", "UP")}),
            400,
            "'sortType' must be ASC or DESC",
        ),
        (json!([]), 400, "must be an object"),
    ] {
        let refused = place.refused("POST", "/analytics/search", &[], &body);
        assert!(
            refused.0 == status && refused.1.contains(says),
            "{body}: {refused:?}"
        );
    }
    let (status, json) = asked(&place.search, "POST", "/analytics/search", &[], "{");
    assert_eq!(status, 400);
    assert!(
        json["message"]
            .as_str()
            .is_some_and(|text| text.starts_with("the body is not JSON"))
    );
}

#[test]
fn categories_and_ranges_are_drilled_into() {
    let place = Place::new(vec![]);
    let body = |more: Json| {
        let mut body = json!({"tableName": "org.docs", "query": "*:*"});
        for (name, value) in more.as_object().expect("an object") {
            body[name] = value.clone();
        }
        body
    };
    let ulm = json!([{"fieldName": "region", "path": ["Ulm"]}]);
    assert_eq!(
        place.found("/analytics/drilldown", &body(json!({"categories": ulm}))),
        [1, 2]
    );
    let deep = json!([{"fieldName": "region", "path": ["Berlin", "Mitte"]}]);
    assert_eq!(
        place.found(
            "/analytics/drilldown",
            &body(json!({"categories": deep, "recordStart": 1, "recordCount": 5}))
        ),
        [4]
    );
    let none = json!([{"fieldName": "region", "path": ["EMPTY_FACET_VALUE!"]}]);
    assert_eq!(
        place.found("/analytics/drilldown", &body(json!({"categories": none}))),
        [5]
    );
    let by = body(json!({"scoreFunction": "price < 5 ? price : -price"}));
    assert_eq!(place.found("/analytics/drilldown", &by), [3, 1, 2, 4, 5]);
    let sum = |more: Json| place.post("/analytics/drillDownScoreCount", &body(more));
    assert_eq!(sum(json!({})), json!(5.0));
    assert_eq!(
        sum(json!({"categories": ulm, "scoreFunction": "price * 2"})),
        json!(7.0)
    );
    assert_eq!(
        place.post("/analytics/facets", &body(json!({"fieldName": "region"}))),
        json!({"categoryPath": [], "categoryCount": 3, "categories": {"Berlin": 2.0, "Ulm": 2.0, "EMPTY_FACET_VALUE!": 1.0}})
    );
    let facets = json!({"fieldName": "region", "categoryPath": ["Ulm"], "scoreFunction": "n", "start": 0, "count": 1});
    assert_eq!(
        place.post("/analytics/facets", &body(facets)).to_string(),
        r#"{"categoryPath":["Ulm"],"categoryCount":2,"categories":{"Ost":2.0}}"#
    );
    let ranges =
        json!([{"label": "low", "from": 0, "to": 4}, {"label": "high", "from": 4, "to": 100}]);
    assert_eq!(
        place
            .post(
                "/analytics/rangecount",
                &body(json!({"rangeField": "price", "ranges": ranges}))
            )
            .to_string(),
        r#"[{"label":"low","from":0.0,"to":4.0,"score":2.0},{"label":"high","from":4.0,"to":100.0,"score":3.0}]"#
    );
    for (route, more, says) in [
        (
            "/analytics/facets",
            json!({"fieldName": "title"}),
            "column 'title' is no facet",
        ),
        ("/analytics/facets", json!({}), "'fieldName' is missing"),
        (
            "/analytics/facets",
            json!({"fieldName": "region", "scoreFunction": "1 +"}),
            "Error while evaluating the score function",
        ),
        (
            "/analytics/drilldown",
            json!({"scoreFunction": "size"}),
            "no score parameter 'size'",
        ),
        (
            "/analytics/rangecount",
            json!({"rangeField": "title", "ranges": ranges}),
            "is not a number",
        ),
        (
            "/analytics/rangecount",
            json!({"rangeField": "n"}),
            "'ranges' has from 1",
        ),
    ] {
        let (status, message) = place.refused("POST", route, &[], &body(more));
        assert!(status == 400 && message.contains(says), "{message}");
    }
}

#[test]
fn rows_are_aggregated_by_category() {
    let place = Place::new(vec![]);
    let fields = json!([
        {"fields": ["n"], "aggregate": "SUM", "alias": "sum"},
        {"fieldName": "price", "aggregate": "avg", "alias": "mean"},
        {"fields": ["price"], "aggregate": "MIN", "alias": "least"},
        {"fields": ["price"], "aggregate": "MAX", "alias": "most"},
        {"fields": [], "aggregate": "COUNT", "alias": "rows"},
        {"fields": ["title"], "aggregate": "FIRST", "alias": "first"},
    ]);
    let body = json!({"tableName": "org.docs", "groupByField": "region", "query": "n:[1 TO 4]", "aggregateLevel": 0, "aggregateFields": fields});
    let records = place.post("/analytics/aggregates", &body);
    assert_eq!(
        records[0],
        json!({"id": null, "tableName": "ORG_DOCS", "timestamp": 0, "values": {
            "sum": 7.0, "mean": 6.0, "least": 4.0, "most": 8.0, "rows": 2, "first": "Foxes of the brown forest",
            "region": ["Berlin"], "luceneQuery": "n:[1 TO 4]", "noOfRecords": 2,
        }})
    );
    assert_eq!(records.as_array().map(Vec::len), Some(2));
    let deep = json!({"tableName": "org.docs", "groupByField": "region", "parentPath": ["Ulm"],
        "aggregateFields": [{"fields": ["n"], "aggregate": "SUM", "alias": "s"}]});
    let all = json!({"tableName": "org.docs", "noOfRecords": 3,
        "aggregateFields": [{"fields": ["n"], "aggregate": "SUM", "alias": "s"}]});
    let both = place.post("/analytics/multi_aggregates", &json!([deep, all]));
    let of = |at: usize| -> Vec<(Json, Json)> {
        let records = both[at].as_array().expect("records").iter();
        records
            .map(|r| (r["values"]["region"].clone(), r["values"]["s"].clone()))
            .collect()
    };
    assert_eq!(
        of(0),
        [
            (json!(["Ulm", "Mitte"]), json!(1.0)),
            (json!(["Ulm", "Ost"]), json!(2.0))
        ]
    );
    assert_eq!(of(1), [(Json::Null, json!(6.0))]);
    assert_eq!(both[1][0]["values"]["luceneQuery"], "*:*");
    for (field, more, says) in [
        (
            json!({"fields": ["n"], "aggregate": "SUM"}),
            json!("region"),
            "'alias' is missing",
        ),
        (
            json!({"fields": ["n"], "aggregate": "MEAN", "alias": "a"}),
            json!("region"),
            "no aggregate 'MEAN'",
        ),
        (
            json!({"fields": ["title"], "aggregate": "SUM", "alias": "a"}),
            json!("region"),
            "needs a column of numbers",
        ),
        (
            json!({"fields": ["n"], "aggregate": "SUM", "alias": "a"}),
            json!("title"),
            "is no facet",
        ),
        (
            json!({"fields": ["n"], "aggregate": "SUM", "alias": "a"}),
            Json::Null,
            "'noOfRecords' must be above 0",
        ),
    ] {
        let body =
            json!({"tableName": "org.docs", "groupByField": more, "aggregateFields": [field]});
        let (status, message) = place.refused("POST", "/analytics/aggregates", &[], &body);
        assert!(status == 400 && message.contains(says), "{message}");
    }
}
