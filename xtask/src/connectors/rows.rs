//! Which tests show which case of which connector. A test is named `crate::target::function`, or by
//! its module where it is a unit test.

/// What every connector is asked for.
pub const CASES: [&str; 10] = [
    "open, close",
    "order",
    "resume",
    "lost peer",
    "slow peer",
    "bad payload",
    "reload",
    "TLS",
    "authentication",
    "on.error",
];

pub enum Cell {
    /// All of them show it.
    Tests(&'static [&'static str]),
    /// The case is none for this connector, and why.
    No(&'static str),
}

pub struct Row {
    /// `kind name`, as the catalog has them.
    pub connectors: &'static [&'static str],
    /// The recipe of the server, or what stands on the other side in its place, with the name of what
    /// has a version in braces.
    pub server: &'static str,
    /// In the order of [`CASES`].
    pub cells: [Cell; CASES.len()],
}

impl Row {
    pub fn name(&self) -> String {
        self.connectors.join(", ")
    }

    pub fn tests(&self) -> impl Iterator<Item = &'static str> {
        self.cells.iter().flat_map(|cell| match cell {
            Cell::Tests(tests) => tests.iter().copied(),
            Cell::No(_) => [].iter().copied(),
        })
    }
}

use Cell::{No, Tests};

const RELOAD: &str = "headwater::connectors::reloads_on_both_sides_lose_nothing_and_keep_the_order";
const AWAY: &str =
    "headwater::connectors::events_for_a_destination_that_is_away_go_where_on_error_says";
const SILENT: &str = "headwater::connectors::a_silent_server_is_lost_within_five_seconds";
const FULL: &str = "headwater::connectors::an_app_that_takes_nothing_is_felt_by_the_other_side_and_nothing_is_lost";
const SLOW: &str =
    "headwater::connectors::a_peer_that_takes_rows_slowly_holds_the_sender_and_gets_all";
const STORE_SLOW: &str =
    "headwater::stores::a_server_that_takes_rows_slowly_holds_the_app_and_gets_all";
const STORE_SILENT: &str =
    "headwater::stores::a_silent_server_is_lost_within_five_seconds_and_gone_on_with";
const STORE_RELOAD: &str = "headwater::stores::reloads_while_rows_are_kept_keep_each_once";
const STORE_TLS: &str =
    "headwater::stores::a_database_is_reached_by_tls_where_its_certificate_is_trusted";
const STORE_POLICIES: &str =
    "headwater::stores::what_becomes_of_rows_while_a_store_is_away_follows_on_error";
const KAFKA_SECURITY: &str =
    "headwater::kafka::security::certificates_and_logins_open_the_broker_and_no_secret_is_told";
const BAD: &str =
    "headwater::connectors::a_payload_that_cannot_be_read_is_kept_and_its_neighbours_go_on";

const NO_ON_ERROR: Cell = No("`on.error` belongs to sinks");
const NO_PAYLOAD: Cell = No("a sink reads no payload");
const NO_POLICY_NEEDED: Cell = No("it cannot be away");
const NO_NETWORK: Cell = No("it works on no network");
const NO_PEER: Cell = No("there is no other side");

/// Sorted by name.
pub const ROWS: &[Row] = &[
    Row {
        connectors: &["sink email"],
        server: "smtp",
        cells: [
            Tests(&["headwater::email::mails_arrive_as_the_event_says"]),
            Tests(&["headwater::email::mails_arrive_as_the_event_says"]),
            Tests(&["headwater::email::a_server_that_was_away_gets_every_mail"]),
            Tests(&[
                "headwater::email::a_server_that_was_away_gets_every_mail",
                "headwater::email::a_server_that_stands_still_is_named_and_waited_for",
            ]),
            Tests(&[
                "headwater::email::a_server_that_takes_mails_slowly_holds_the_app_and_gets_all_in_order",
            ]),
            NO_PAYLOAD,
            Tests(&["headwater::email::reloads_while_mails_are_sent_send_each"]),
            Tests(&["headwater::email::tls_from_the_start_and_by_an_upgrade"]),
            Tests(&["headwater::email::only_who_has_the_password_may_send"]),
            Tests(&["headwater::email::what_a_server_says_decides_where_an_event_goes"]),
        ],
    },
    Row {
        connectors: &["sink file"],
        server: "file system",
        cells: [
            Tests(&["connect::file::sink::tests::payloads_are_added_or_replace_the_file"]),
            Tests(&["headwater::run::a_run_ends_with_its_input_and_says_what_it_did"]),
            Tests(&["headwater::crash::every_line_reaches_a_file"]),
            Tests(&["connect::file::sink::tests::what_could_not_be_written_is_written_later_once"]),
            No("a write returns when it is done"),
            NO_PAYLOAD,
            Tests(&[RELOAD]),
            NO_NETWORK,
            NO_NETWORK,
            Tests(&["headwater::run::what_a_sink_cannot_deliver_goes_where_it_is_told"]),
        ],
    },
    Row {
        connectors: &["sink grpc"],
        server: "grpcio {grpcio} of Python, and our grpc source",
        cells: [
            Tests(&["headwater::grpc::a_server_gets_events_with_headers_metadata_and_sequence"]),
            Tests(&["headwater::grpc::a_server_gets_events_with_headers_metadata_and_sequence"]),
            Tests(&["headwater::grpc::a_server_that_is_away_or_silent_gets_everything_later"]),
            Tests(&[
                "headwater::grpc::a_server_that_is_away_or_silent_gets_everything_later",
                "headwater::grpc::a_peer_that_stands_still_is_noticed_by_client_and_server",
            ]),
            Tests(&[FULL]),
            NO_PAYLOAD,
            Tests(&[RELOAD]),
            Tests(&["headwater::grpc::tls_both_ways_with_java_key_stores"]),
            No("a login is metadata, which the event may have"),
            Tests(&[
                AWAY,
                "headwater::grpc::a_status_decides_where_an_event_goes",
            ]),
        ],
    },
    Row {
        connectors: &["sink grpc-call", "source grpc-call-response"],
        server: "grpcio {grpcio} of Python, and our grpc-service source",
        cells: [
            Tests(&["headwater::grpc::calls_get_their_responses_and_services_answer_each_request"]),
            No("responses come in the order in which they are given"),
            No("a response belongs to a call of this process"),
            Tests(&["headwater::grpc::a_reload_between_calls_loses_nothing"]),
            Tests(&["headwater::grpc::calls_get_their_responses_and_services_answer_each_request"]),
            Tests(&["headwater::grpc::calls_get_their_responses_and_services_answer_each_request"]),
            Tests(&["headwater::grpc::a_reload_between_calls_loses_nothing"]),
            Tests(&["headwater::grpc::tls_both_ways_with_java_key_stores"]),
            No("a login is metadata, which the event may have"),
            Tests(&["headwater::grpc::calls_get_their_responses_and_services_answer_each_request"]),
        ],
    },
    Row {
        connectors: &["sink http"],
        server: "our http source, and a server of the test",
        cells: [
            Tests(&["headwater::http::method_headers_and_url_follow_from_the_event"]),
            Tests(&[RELOAD]),
            Tests(&["headwater::http::a_peer_that_is_away_is_waited_for_and_gets_everything"]),
            Tests(&["headwater::http::a_peer_that_was_away_gets_the_next_event_after_it_is_back"]),
            Tests(&[SLOW]),
            NO_PAYLOAD,
            Tests(&[RELOAD]),
            Tests(&["headwater::http::tls_with_java_key_stores_as_they_are"]),
            Tests(&[
                "headwater::http::a_token_is_obtained_kept_and_renewed",
                "headwater::http::a_proxy_is_asked_with_the_whole_url",
                "headwater::http::the_published_source_takes_what_curl_posts_and_says_no_as_siddhi_does",
            ]),
            Tests(&[
                AWAY,
                "headwater::http::a_peer_that_is_away_is_waited_for_and_gets_everything",
                "headwater::http::what_cannot_be_sent_goes_to_the_fault_stream_or_is_counted",
            ]),
        ],
    },
    Row {
        connectors: &[
            "sink http-call",
            "sink http-request",
            "source http-call-response",
            "source http-response",
        ],
        server: "a server of the test",
        cells: [
            Tests(&["headwater::http::the_published_pair_gets_every_response_back"]),
            No("responses come in the order in which they are given"),
            No("a response belongs to a request of this process"),
            Tests(&[
                "headwater::http_pairs::a_server_that_goes_away_before_its_response_is_named_and_asked_again_where_it_is_waited_for",
            ]),
            Tests(&[
                "headwater::http_pairs::a_server_that_answers_slowly_is_asked_so_much_at_once_and_no_more",
            ]),
            Tests(&[
                "headwater::http_pairs::a_response_that_cannot_be_read_is_kept_and_its_neighbours_are_taken",
            ]),
            Tests(&[
                "headwater::http_pairs::a_reload_between_request_and_response_waits_for_the_response",
            ]),
            Tests(&[
                "headwater::http_pairs::calls_and_services_speak_tls_and_let_in_who_has_the_password",
            ]),
            Tests(&[
                "headwater::http_pairs::calls_and_services_speak_tls_and_let_in_who_has_the_password",
            ]),
            Tests(&["headwater::http_pairs::a_call_whose_server_is_away_goes_where_on_error_says"]),
        ],
    },
    Row {
        connectors: &["sink inMemory", "source inMemory"],
        server: "the process itself",
        cells: [
            Tests(&["headwater::run::apps_are_chained_by_topics"]),
            Tests(&["headwater::run::a_topic_inside_an_app_is_read_depth_first"]),
            No("a topic carries nothing between two steps"),
            NO_PEER,
            No("a topic holds nothing"),
            Tests(&[
                "headwater::reload::what_a_reader_of_a_topic_cannot_read_is_rejected_and_its_neighbours_are_taken",
            ]),
            Tests(&["headwater::reload::a_topic_goes_on_when_one_of_its_apps_is_edited"]),
            NO_NETWORK,
            NO_NETWORK,
            Tests(&[
                "headwater::run::events_that_nobody_reads_are_counted",
                "headwater::run::events_that_nobody_reads_go_to_the_fault_stream",
            ]),
        ],
    },
    Row {
        connectors: &["sink kafka"],
        server: "kafka",
        cells: [
            Tests(&[
                "headwater::kafka::clients::the_console_tools_of_kafka_read_and_write_the_same",
            ]),
            Tests(&[
                "headwater::kafka::failures::a_broker_that_is_killed_and_one_that_is_silent_are_named_and_nothing_is_lost",
                RELOAD,
            ]),
            Tests(&["headwater::kafka::failures::a_broker_that_is_not_there_is_waited_for"]),
            Tests(&[
                "headwater::kafka::failures::a_broker_that_is_killed_and_one_that_is_silent_are_named_and_nothing_is_lost",
                "headwater::kafka::exactly_once::every_number_is_there_once_when_the_broker_is_killed",
            ]),
            Tests(&[SLOW]),
            NO_PAYLOAD,
            Tests(&[RELOAD]),
            Tests(&[KAFKA_SECURITY]),
            Tests(&[KAFKA_SECURITY]),
            Tests(&[AWAY]),
        ],
    },
    Row {
        connectors: &["sink kafka-replay-request", "source kafka-replay-response"],
        server: "kafka",
        cells: [
            Tests(&[
                "headwater::kafka::replay::what_is_asked_for_again_comes_again_and_nothing_else",
            ]),
            Tests(&[
                "headwater::kafka::replay::what_is_asked_for_again_comes_again_and_nothing_else",
            ]),
            No("requests do not outlive the process"),
            No("brokers are watched as by kafka, see there"),
            No("records are fetched when there is room, as by kafka"),
            Tests(&[
                "headwater::kafka::replay::what_is_asked_for_again_comes_again_and_nothing_else",
            ]),
            No("requests that wait end with their app"),
            No("it connects as kafka does, see there"),
            No("it connects as kafka does, see there"),
            No("a request that nobody serves goes there as any event does"),
        ],
    },
    Row {
        connectors: &["sink kafkaMultiDC", "source kafkaMultiDC"],
        server: "kafka",
        cells: [
            Tests(&["headwater::kafka::centres::what_goes_to_two_centres_comes_once_and_in_order"]),
            Tests(&["headwater::kafka::centres::what_goes_to_two_centres_comes_once_and_in_order"]),
            Tests(&["headwater::kafka::centres::a_centre_that_dies_takes_nothing_with_it"]),
            Tests(&["headwater::kafka::centres::a_centre_that_dies_takes_nothing_with_it"]),
            No("it writes and reads as kafka does, see there"),
            Tests(&[
                "headwater::kafka::centres::records_that_cannot_be_read_are_kept_and_a_reload_goes_on_where_each_centre_was",
            ]),
            Tests(&[
                "headwater::kafka::centres::records_that_cannot_be_read_are_kept_and_a_reload_goes_on_where_each_centre_was",
            ]),
            No("it connects as kafka does, see there"),
            No("it connects as kafka does, see there"),
            Tests(&[
                "headwater::kafka::centres::records_for_centres_that_are_both_away_go_where_on_error_says",
                "headwater::kafka::centres::a_centre_that_dies_takes_nothing_with_it",
            ]),
        ],
    },
    Row {
        connectors: &["sink log"],
        server: "standard output",
        cells: [
            Tests(&["connect::log::tests::events_in_siddhis_text_form"]),
            Tests(&["headwater::run::a_run_ends_with_its_input_and_says_what_it_did"]),
            No("what was printed was printed"),
            NO_PEER,
            No("a write returns when it is done"),
            NO_PAYLOAD,
            Tests(&[
                "headwater::reload::what_changed_goes_on_where_it_was_and_the_rest_does_not_notice",
            ]),
            NO_NETWORK,
            NO_NETWORK,
            NO_POLICY_NEEDED,
        ],
    },
    Row {
        connectors: &["sink mqtt"],
        server: "mosquitto",
        cells: [
            Tests(&[
                "headwater::mqtt::every_row_arrives_in_order_with_each_quality_of_service",
                "headwater::mqtt::topics_come_with_each_event_and_the_broker_keeps_what_it_is_told_to",
            ]),
            Tests(&["headwater::mqtt::every_row_arrives_in_order_with_each_quality_of_service"]),
            Tests(&["headwater::mqtt::a_broker_that_restarts_gets_and_gives_everything_once"]),
            Tests(&[SILENT]),
            Tests(&[SLOW]),
            NO_PAYLOAD,
            Tests(&[RELOAD]),
            Tests(&["headwater::mqtt::tls_trusts_what_the_deployment_names"]),
            Tests(&["headwater::mqtt::only_who_has_the_password_is_let_in"]),
            Tests(&[
                AWAY,
                "headwater::mqtt::a_broker_that_restarts_gets_and_gives_everything_once",
            ]),
        ],
    },
    Row {
        connectors: &["sink nats"],
        server: "nats",
        cells: [
            Tests(&[
                "headwater::nats::every_row_arrives_in_order_and_a_stop_takes_what_was_sent",
                "headwater::nats::subjects_follow_from_the_event_and_each_gets_its_stream",
            ]),
            Tests(&["headwater::nats::every_row_arrives_in_order_and_a_stop_takes_what_was_sent"]),
            Tests(&["headwater::nats::a_server_that_restarts_gets_and_gives_everything_once"]),
            Tests(&[SILENT]),
            Tests(&[SLOW]),
            NO_PAYLOAD,
            Tests(&[RELOAD]),
            Tests(&["headwater::nats::tls_both_ways_with_the_key_stores_of_the_options"]),
            Tests(&["headwater::nats::only_who_proves_who_he_is_is_let_in"]),
            Tests(&[
                AWAY,
                "headwater::nats::a_server_that_restarts_gets_and_gives_everything_once",
            ]),
        ],
    },
    Row {
        connectors: &["sink prometheus", "source prometheus"],
        server: "pushgateway",
        cells: [
            Tests(&[
                "headwater::prometheus::metrics_of_every_type_are_scraped_from_one_port",
                "headwater::prometheus::a_source_gives_each_sample_of_its_metric",
            ]),
            No("a metric has no order"),
            No("a metric begins anew with its process"),
            Tests(&[
                "headwater::prometheus::a_push_gateway_gets_what_was_counted_even_when_it_was_away",
            ]),
            Tests(&["headwater::prometheus::a_gateway_that_answers_slowly_gets_what_was_counted"]),
            Tests(&[
                "headwater::prometheus::a_page_that_cannot_be_read_is_said_and_the_next_one_is_taken",
            ]),
            Tests(&["headwater::prometheus::a_reload_leaves_the_port_to_the_metrics_that_go_on"]),
            Tests(&["headwater::prometheus::a_target_is_asked_as_the_options_say"]),
            Tests(&["headwater::prometheus::a_target_is_asked_as_the_options_say"]),
            Tests(&[
                "headwater::prometheus::a_push_gateway_gets_what_was_counted_even_when_it_was_away",
            ]),
        ],
    },
    Row {
        connectors: &["sink rabbitmq"],
        server: "rabbitmq",
        cells: [
            Tests(&[
                "headwater::rabbitmq::every_row_arrives_in_order_and_a_stop_takes_what_was_sent",
                "headwater::rabbitmq::exchanges_follow_from_the_event_and_are_made_where_they_are_not",
            ]),
            Tests(&[
                "headwater::rabbitmq::every_row_arrives_in_order_and_a_stop_takes_what_was_sent",
            ]),
            Tests(&["headwater::rabbitmq::a_broker_that_restarts_gets_and_gives_everything"]),
            Tests(&[SILENT]),
            Tests(&[SLOW]),
            NO_PAYLOAD,
            Tests(&[RELOAD]),
            Tests(&["headwater::rabbitmq::tls_trusts_what_the_options_name"]),
            Tests(&["headwater::rabbitmq::only_who_has_the_password_is_let_in"]),
            Tests(&[
                AWAY,
                "headwater::rabbitmq::a_broker_that_restarts_gets_and_gives_everything",
            ]),
        ],
    },
    Row {
        connectors: &["sink s3"],
        server: "s3",
        cells: [
            Tests(&["headwater::s3::payloads_are_objects_whose_numbers_go_on_after_a_restart"]),
            Tests(&["headwater::s3::payloads_are_objects_whose_numbers_go_on_after_a_restart"]),
            Tests(&["headwater::s3::a_server_that_was_away_gets_every_object"]),
            Tests(&[
                "headwater::s3::a_server_that_was_away_gets_every_object",
                "headwater::s3::a_server_that_stands_still_is_named_and_waited_for",
            ]),
            Tests(&[
                "headwater::s3::a_server_that_takes_objects_slowly_holds_the_sender_and_gets_all",
            ]),
            NO_PAYLOAD,
            Tests(&["headwater::s3::reloads_while_objects_are_stored_store_each_once"]),
            Tests(&["headwater::s3::tls_trusts_what_the_deployment_names"]),
            Tests(&["headwater::s3::only_who_has_the_keys_may_store"]),
            Tests(&["headwater::s3::objects_for_a_server_that_is_away_go_where_on_error_says"]),
        ],
    },
    Row {
        connectors: &["sink sqs"],
        server: "s3",
        cells: [
            Tests(&["headwater::sqs::every_row_arrives_in_order_and_is_deleted"]),
            Tests(&["headwater::sqs::every_row_arrives_in_order_and_is_deleted"]),
            Tests(&["headwater::sqs::a_server_that_was_away_gets_and_gives_every_row"]),
            Tests(&["headwater::sqs::a_silent_server_is_lost_within_five_seconds"]),
            Tests(&["headwater::sqs::a_line_that_is_slow_holds_the_sender_and_loses_nothing"]),
            NO_PAYLOAD,
            Tests(&["headwater::sqs::reloads_on_both_sides_lose_nothing"]),
            Tests(&["headwater::sqs::tls_trusts_what_the_deployment_names"]),
            Tests(&["headwater::sqs::only_who_has_the_keys_may_send_and_receive"]),
            Tests(&["headwater::sqs::rows_go_where_on_error_says"]),
        ],
    },
    Row {
        connectors: &["sink sse-server"],
        server: "curl {curl}, and our sse source",
        cells: [
            Tests(&["headwater::sse::all_who_hold_the_url_open_hear_every_payload"]),
            Tests(&["headwater::sse::all_who_hold_the_url_open_hear_every_payload"]),
            No("it sends to those who are there: nothing is kept for who comes later"),
            Tests(&[
                "headwater::sse::a_client_that_reads_slowly_is_waited_for_and_one_that_reads_nothing_is_left",
            ]),
            Tests(&[
                "headwater::sse::a_client_that_reads_slowly_is_waited_for_and_one_that_reads_nothing_is_left",
            ]),
            NO_PAYLOAD,
            Tests(&["headwater::sse::a_source_hears_a_sink_in_order_and_both_are_reloaded"]),
            Tests(&["headwater::sse::tls_and_login_of_both_sides"]),
            No("its options know no login"),
            Tests(&["headwater::sse::a_port_that_is_taken_goes_by_on_error_and_a_path_only_once"]),
        ],
    },
    Row {
        connectors: &["sink tcp"],
        server: "our tcp source, and a server of the test",
        cells: [
            Tests(&["headwater::tcp::every_row_arrives_once_and_in_order"]),
            Tests(&["headwater::tcp::every_row_arrives_once_and_in_order"]),
            Tests(&["headwater::tcp::a_receiver_that_is_stopped_and_started_again_misses_nothing"]),
            Tests(&[
                "headwater::tcp::a_peer_that_goes_away_is_told_at_once_also_when_nothing_is_sent",
            ]),
            Tests(&[
                "headwater::tcp::a_peer_that_does_not_read_holds_the_sender_and_gets_all_in_the_end",
            ]),
            NO_PAYLOAD,
            Tests(&[RELOAD]),
            No("Siddhi's frames have no TLS"),
            No("Siddhi's frames have no login"),
            Tests(&[
                AWAY,
                "headwater::tcp::a_receiver_that_is_stopped_and_started_again_misses_nothing",
            ]),
        ],
    },
    Row {
        connectors: &["sink websocket"],
        server: "websockets {websockets} of Python, and our websocket-server source",
        cells: [
            Tests(&[
                "headwater::websocket::a_server_gets_and_gives_every_row_in_order",
                "headwater::websocket::frames_are_text_or_binary_as_the_mapper_makes_them",
                "headwater::websocket::an_idle_connection_is_closed_and_opened_where_it_is_needed",
            ]),
            Tests(&["headwater::websocket::a_server_gets_and_gives_every_row_in_order"]),
            Tests(&["headwater::websocket::a_server_that_restarts_gets_all_and_is_read_again"]),
            Tests(&["headwater::websocket::a_silent_peer_is_lost_within_five_seconds"]),
            Tests(&[
                FULL,
                "headwater::websocket::a_peer_that_reads_slowly_gets_everything_once",
            ]),
            NO_PAYLOAD,
            Tests(&[RELOAD]),
            Tests(&["headwater::websocket::tls_both_ways_with_java_key_stores"]),
            Tests(&["headwater::websocket::only_who_proves_who_he_is_is_let_in"]),
            Tests(&[AWAY]),
        ],
    },
    Row {
        connectors: &["sink websocket-server"],
        server: "websockets {websockets} of Python",
        cells: [
            Tests(&["headwater::websocket::a_server_sink_sends_to_all_who_are_connected"]),
            Tests(&["headwater::websocket::a_server_sink_sends_to_all_who_are_connected"]),
            No("it sends to those who are there: nothing is kept for who comes later"),
            Tests(&["headwater::websocket::a_silent_peer_is_lost_within_five_seconds"]),
            Tests(&[
                "headwater::websocket::a_client_that_reads_slowly_holds_the_sink_up_and_gets_everything_once",
            ]),
            NO_PAYLOAD,
            Tests(&["headwater::websocket::a_reload_takes_what_was_sent_and_connects_again"]),
            Tests(&["headwater::websocket::tls_both_ways_with_java_key_stores"]),
            No("its options know no login"),
            Tests(&[
                "headwater::websocket::a_port_that_is_taken_is_waited_for_or_goes_by_on_error",
            ]),
        ],
    },
    Row {
        connectors: &["sink websubhub", "source websubhub"],
        server: "curl, openssl, and subscribers that answer as told",
        cells: [
            Tests(&[
                "headwater::websub::what_is_published_reaches_who_has_subscribed_and_nobody_else",
            ]),
            No("each payload goes to each subscriber by itself, as with `http`"),
            Tests(&[
                "headwater::websub::subscriptions_outlive_a_crash_and_may_lie_in_a_database",
                "headwater::websub::what_a_callback_has_confirmed_is_saved_at_once",
            ]),
            Tests(&[
                "headwater::websub::a_subscriber_that_fails_is_tried_again_and_costs_the_others_nothing",
            ]),
            Tests(&[
                "headwater::websub::a_subscriber_that_fails_is_tried_again_and_costs_the_others_nothing",
            ]),
            Tests(&[
                "headwater::websub::a_request_that_cannot_be_is_refused_and_one_that_is_not_meant_is_dropped",
            ]),
            Tests(&["headwater::websub::subscriptions_outlive_a_crash_and_may_lie_in_a_database"]),
            Tests(&[
                "headwater::websub::hub_and_callback_speak_tls_and_the_app_may_define_the_table",
            ]),
            Tests(&[
                "headwater::websub::what_is_published_reaches_who_has_subscribed_and_nobody_else",
            ]),
            Tests(&[
                "headwater::websub::a_subscriber_that_fails_is_tried_again_and_costs_the_others_nothing",
            ]),
        ],
    },
    Row {
        connectors: &["source cdc"],
        server: "mariadb",
        cells: [
            Tests(&["connect::cdc::changes_of_mariadb_arrive_in_order_and_once"]),
            Tests(&["connect::cdc::changes_of_mariadb_arrive_in_order_and_once"]),
            Tests(&[
                "connect::cdc::changes_of_mariadb_arrive_in_order_and_once",
                "connect::cdc::a_log_that_is_gone_is_said_with_its_remedy",
                "connect::cdc::gtid::a_replica_of_mariadb_goes_on_where_its_primary_stopped",
                "headwater::changes::a_replica_of_mariadb_takes_over_and_every_row_comes_once",
            ]),
            Tests(&[
                "headwater::changes::a_server_that_goes_away_while_it_is_read_is_named_and_gone_on_with",
            ]),
            Tests(&[
                "headwater::changes::an_app_that_takes_nothing_leaves_the_changes_where_they_are",
            ]),
            Tests(&["connect::cdc::every_type_of_mariadb"]),
            Tests(&[
                "headwater::changes::reloads_while_changes_come_lose_nothing_and_keep_the_order",
            ]),
            Tests(&[STORE_TLS]),
            Tests(&["headwater::changes::only_who_has_the_password_reads_changes"]),
            NO_ON_ERROR,
        ],
    },
    Row {
        connectors: &["source cdc"],
        server: "mysql",
        cells: [
            Tests(&["connect::cdc::changes_of_mysql_arrive_in_order_and_once"]),
            Tests(&["connect::cdc::changes_of_mysql_arrive_in_order_and_once"]),
            Tests(&[
                "connect::cdc::changes_of_mysql_arrive_in_order_and_once",
                "connect::cdc::gtid::a_replica_of_mysql_goes_on_where_its_primary_stopped",
            ]),
            Tests(&[
                "headwater::changes::a_server_that_goes_away_while_it_is_read_is_named_and_gone_on_with",
            ]),
            Tests(&[
                "headwater::changes::an_app_that_takes_nothing_leaves_the_changes_where_they_are",
            ]),
            Tests(&["connect::cdc::every_type_of_mysql"]),
            Tests(&[
                "headwater::changes::reloads_while_changes_come_lose_nothing_and_keep_the_order",
            ]),
            Tests(&[STORE_TLS]),
            Tests(&["headwater::changes::only_who_has_the_password_reads_changes"]),
            NO_ON_ERROR,
        ],
    },
    Row {
        connectors: &["source cdc"],
        server: "postgres",
        cells: [
            Tests(&[
                "connect::cdc::changes_of_postgres_arrive_in_order_and_once",
                "connect::cdc::publications_of_postgres_are_made_as_debezium_makes_them",
            ]),
            Tests(&["connect::cdc::changes_of_postgres_arrive_in_order_and_once"]),
            Tests(&[
                "connect::cdc::a_restart_goes_on_at_the_exact_change_of_postgres",
                "connect::cdc::what_a_slot_of_postgres_cannot_give_is_said_with_its_remedy",
            ]),
            Tests(&[
                "headwater::changes::a_server_that_goes_away_while_it_is_read_is_named_and_gone_on_with",
            ]),
            Tests(&[
                "headwater::changes::an_app_that_takes_nothing_leaves_the_changes_where_they_are",
            ]),
            Tests(&["connect::cdc::every_type_of_postgres"]),
            Tests(&[
                "headwater::changes::reloads_while_changes_come_lose_nothing_and_keep_the_order",
            ]),
            Tests(&[STORE_TLS]),
            Tests(&["headwater::changes::only_who_has_the_password_reads_changes"]),
            NO_ON_ERROR,
        ],
    },
    Row {
        connectors: &["source email"],
        server: "dovecot",
        cells: [
            Tests(&["headwater::email_source::mails_come_once_with_their_headers"]),
            Tests(&["headwater::email_source::mails_come_once_with_their_headers"]),
            Tests(&["headwater::email_source::mails_come_once_with_their_headers"]),
            Tests(&[
                "headwater::email_source::a_server_that_was_away_brings_every_mail",
                "headwater::email_source::a_server_that_stands_still_is_named_and_waited_for",
            ]),
            No("it asks for one mail after the other"),
            Tests(&["headwater::email_source::mails_come_once_with_their_headers"]),
            No("each look is a connection of its own: as after a stop"),
            Tests(&["headwater::email_source::a_mailbox_behind_tls_wants_its_password"]),
            Tests(&["headwater::email_source::a_mailbox_behind_tls_wants_its_password"]),
            NO_ON_ERROR,
        ],
    },
    Row {
        connectors: &["source file"],
        server: "file system",
        cells: [
            Tests(&["connect::file::tests::files_in_the_order_of_their_names_lines_in_theirs"]),
            Tests(&["connect::file::tests::files_in_the_order_of_their_names_lines_in_theirs"]),
            Tests(&[
                "connect::file::tests::it_goes_on_from_every_post",
                "headwater::crash::every_row_is_there_once_and_every_file_is_moved",
            ]),
            Tests(&[
                "connect::file::tests::a_missing_file_or_directory_is_unavailable_until_it_is_there",
            ]),
            No("a file waits"),
            Tests(&[
                "connect::file::tests::bad_lines_are_rejected_with_their_place_and_the_others_go_on",
                "headwater::run::rejected_events_are_kept_with_their_place",
            ]),
            Tests(&[
                RELOAD,
                "headwater::reload::a_hundred_reloads_lose_nothing_and_leave_nothing_behind",
            ]),
            NO_NETWORK,
            NO_NETWORK,
            NO_ON_ERROR,
        ],
    },
    Row {
        connectors: &["source fileeventlistener"],
        server: "file system",
        cells: [
            Tests(&["headwater::file_events::what_becomes_of_files_is_told"]),
            Tests(&["headwater::file_events::what_becomes_of_files_is_told"]),
            Tests(&[
                "headwater::file_events::what_happened_while_the_app_was_down_is_told_as_well",
            ]),
            Tests(&["headwater::file_events::a_directory_that_is_not_there_is_waited_for"]),
            NO_PEER,
            No("it reads no payload"),
            Tests(&[
                "headwater::file_events::what_happened_while_the_app_was_down_is_told_as_well",
            ]),
            NO_NETWORK,
            NO_NETWORK,
            NO_ON_ERROR,
        ],
    },
    Row {
        connectors: &["source grpc"],
        server: "grpcio {grpcio} of Python, and our grpc sink",
        cells: [
            Tests(&["headwater::grpc::clients_are_answered_when_their_event_is_taken"]),
            Tests(&[
                RELOAD,
                "headwater::grpc::clients_are_answered_when_their_event_is_taken",
            ]),
            No("a client keeps what was not answered"),
            No("a client that goes away is no loss to a listener"),
            Tests(&[FULL]),
            Tests(&[
                BAD,
                "headwater::grpc::clients_are_answered_when_their_event_is_taken",
            ]),
            Tests(&[RELOAD]),
            Tests(&["headwater::grpc::tls_both_ways_with_java_key_stores"]),
            No("its options know no login"),
            NO_ON_ERROR,
        ],
    },
    Row {
        connectors: &["source grpc-service", "sink grpc-service-response"],
        server: "grpcio {grpcio} of Python, and our grpc-call sink",
        cells: [
            Tests(&["headwater::grpc::calls_get_their_responses_and_services_answer_each_request"]),
            No("each request has its own response"),
            No("a request belongs to a call of its client"),
            No("a client that goes away is no loss to a listener"),
            Tests(&["headwater::grpc::calls_get_their_responses_and_services_answer_each_request"]),
            Tests(&["headwater::grpc::calls_get_their_responses_and_services_answer_each_request"]),
            Tests(&["headwater::grpc::a_reload_between_calls_loses_nothing"]),
            Tests(&["headwater::grpc::tls_both_ways_with_java_key_stores"]),
            No("its options know no login"),
            No("a response has nobody else to go to"),
        ],
    },
    Row {
        connectors: &["source http"],
        server: "curl {curl}, and our http sink",
        cells: [
            Tests(&["headwater::http::two_sources_share_a_port_keep_order_and_a_stop_frees_it"]),
            Tests(&["headwater::http::two_sources_share_a_port_keep_order_and_a_stop_frees_it"]),
            Tests(&["headwater::http::with_state_an_answer_means_that_a_crash_loses_nothing"]),
            No("a client that goes away is no loss to a listener"),
            Tests(&[FULL]),
            Tests(&[
                BAD,
                "headwater::http::the_published_source_takes_what_curl_posts_and_says_no_as_siddhi_does",
            ]),
            Tests(&[RELOAD]),
            Tests(&["headwater::http::tls_with_java_key_stores_as_they_are"]),
            Tests(&[
                "headwater::http::the_published_source_takes_what_curl_posts_and_says_no_as_siddhi_does",
            ]),
            NO_ON_ERROR,
        ],
    },
    Row {
        connectors: &[
            "sink http-response",
            "sink http-service-response",
            "source http-request",
            "source http-service",
        ],
        server: "curl {curl}",
        cells: [
            Tests(&["headwater::http::a_service_answers_each_request_with_its_own_response"]),
            No("each response belongs to its request"),
            No("a request does not outlive its connection"),
            Tests(&[
                "headwater::http_pairs::a_client_that_goes_away_before_its_response_hurts_nobody",
            ]),
            Tests(&[
                "headwater::http_pairs::a_response_that_comes_too_late_is_counted_and_the_client_has_been_told",
            ]),
            Tests(&[
                "headwater::http_pairs::a_request_that_cannot_be_read_is_kept_and_its_neighbours_are_answered",
            ]),
            Tests(&[
                "headwater::http_pairs::a_reload_between_request_and_response_tells_the_client_and_serves_the_next",
            ]),
            Tests(&[
                "headwater::http_pairs::calls_and_services_speak_tls_and_let_in_who_has_the_password",
            ]),
            Tests(&[
                "headwater::http_pairs::calls_and_services_speak_tls_and_let_in_who_has_the_password",
            ]),
            No("a response whose request has gone has no destination"),
        ],
    },
    Row {
        connectors: &["source kafka"],
        server: "kafka",
        cells: [
            Tests(&[
                "headwater::kafka::reading::the_published_app_counts_what_was_written",
                "headwater::kafka::reading::every_way_of_threading_reads_everything_once",
            ]),
            Tests(&[
                RELOAD,
                "headwater::kafka::reading::a_source_starts_where_it_is_told",
            ]),
            Tests(&[
                "headwater::kafka::failures::every_record_is_in_the_table_once_whenever_the_run_is_killed",
                "headwater::kafka::reading::offsets_are_committed_as_the_app_says",
            ]),
            Tests(&[
                "headwater::kafka::failures::a_broker_that_is_killed_and_one_that_is_silent_are_named_and_nothing_is_lost",
            ]),
            Tests(&[FULL]),
            Tests(&[
                BAD,
                "headwater::kafka::reading::headers_are_properties_and_what_cannot_be_read_is_named",
            ]),
            Tests(&[RELOAD]),
            Tests(&[KAFKA_SECURITY]),
            Tests(&[KAFKA_SECURITY]),
            NO_ON_ERROR,
        ],
    },
    Row {
        connectors: &["source mqtt"],
        server: "mosquitto",
        cells: [
            Tests(&["headwater::mqtt::every_row_arrives_in_order_with_each_quality_of_service"]),
            Tests(&["headwater::mqtt::every_row_arrives_in_order_with_each_quality_of_service"]),
            Tests(&[
                "headwater::mqtt::a_source_that_was_killed_goes_on_with_what_was_not_acknowledged",
            ]),
            Tests(&[
                SILENT,
                "headwater::mqtt::a_broker_that_does_not_answer_is_given_up",
            ]),
            Tests(&[FULL]),
            Tests(&[BAD]),
            Tests(&[RELOAD]),
            Tests(&["headwater::mqtt::tls_trusts_what_the_deployment_names"]),
            Tests(&["headwater::mqtt::only_who_has_the_password_is_let_in"]),
            NO_ON_ERROR,
        ],
    },
    Row {
        connectors: &["source nats"],
        server: "nats",
        cells: [
            Tests(&[
                "headwater::nats::every_row_arrives_in_order_and_a_stop_takes_what_was_sent",
                "headwater::nats::a_group_shares_the_messages",
            ]),
            Tests(&["headwater::nats::every_row_arrives_in_order_and_a_stop_takes_what_was_sent"]),
            Tests(&[
                "headwater::nats::a_source_that_was_killed_goes_on_with_what_its_state_has_not",
                "headwater::nats::a_source_begins_where_it_is_told_and_counts_as_the_stream_does",
            ]),
            Tests(&[
                SILENT,
                "headwater::nats::a_server_that_does_not_answer_is_given_up",
            ]),
            Tests(&[FULL]),
            Tests(&[BAD]),
            Tests(&[RELOAD]),
            Tests(&["headwater::nats::tls_both_ways_with_the_key_stores_of_the_options"]),
            Tests(&["headwater::nats::only_who_proves_who_he_is_is_let_in"]),
            NO_ON_ERROR,
        ],
    },
    Row {
        connectors: &["source rabbitmq"],
        server: "rabbitmq",
        cells: [
            Tests(&[
                "headwater::rabbitmq::every_row_arrives_in_order_and_a_stop_takes_what_was_sent",
                "headwater::rabbitmq::queues_are_made_as_they_are_asked_for",
            ]),
            Tests(&[
                "headwater::rabbitmq::every_row_arrives_in_order_and_a_stop_takes_what_was_sent",
            ]),
            Tests(&["headwater::rabbitmq::a_broker_that_restarts_gets_and_gives_everything"]),
            Tests(&[
                SILENT,
                "headwater::rabbitmq::a_port_that_speaks_something_else_is_told",
            ]),
            Tests(&[FULL]),
            Tests(&[BAD]),
            Tests(&[RELOAD]),
            Tests(&["headwater::rabbitmq::tls_trusts_what_the_options_name"]),
            Tests(&["headwater::rabbitmq::only_who_has_the_password_is_let_in"]),
            NO_ON_ERROR,
        ],
    },
    Row {
        connectors: &["source sqs"],
        server: "s3",
        cells: [
            Tests(&["headwater::sqs::every_row_arrives_in_order_and_is_deleted"]),
            Tests(&["headwater::sqs::every_row_arrives_in_order_and_is_deleted"]),
            Tests(&["headwater::sqs::a_server_that_was_away_gets_and_gives_every_row"]),
            Tests(&["headwater::sqs::a_silent_server_is_lost_within_five_seconds"]),
            No("messages are asked for, and wait in the queue"),
            Tests(&[
                "headwater::sqs::a_payload_that_cannot_be_read_is_kept_and_its_neighbours_go_on",
            ]),
            Tests(&["headwater::sqs::reloads_on_both_sides_lose_nothing"]),
            Tests(&["headwater::sqs::tls_trusts_what_the_deployment_names"]),
            Tests(&["headwater::sqs::only_who_has_the_keys_may_send_and_receive"]),
            NO_ON_ERROR,
        ],
    },
    Row {
        connectors: &["source sse"],
        server: "http.server of Python {python}, and our sse-server sink",
        cells: [
            Tests(&["headwater::sse::events_are_read_as_they_are_and_asked_for_behind_the_last"]),
            Tests(&["headwater::sse::a_source_hears_a_sink_in_order_and_both_are_reloaded"]),
            Tests(&["headwater::sse::events_are_read_as_they_are_and_asked_for_behind_the_last"]),
            Tests(&["headwater::sse::events_are_read_as_they_are_and_asked_for_behind_the_last"]),
            Tests(&["headwater::sse::a_full_app_is_felt_by_its_server_and_nothing_is_lost"]),
            Tests(&["headwater::sse::events_are_read_as_they_are_and_asked_for_behind_the_last"]),
            Tests(&["headwater::sse::a_source_hears_a_sink_in_order_and_both_are_reloaded"]),
            Tests(&["headwater::sse::tls_and_login_of_both_sides"]),
            Tests(&["headwater::sse::tls_and_login_of_both_sides"]),
            NO_ON_ERROR,
        ],
    },
    Row {
        connectors: &["source tcp"],
        server: "our tcp sink, and a client of the test",
        cells: [
            Tests(&["headwater::tcp::every_row_arrives_once_and_in_order"]),
            Tests(&["headwater::tcp::every_row_arrives_once_and_in_order"]),
            No("Siddhi's frames carry no position"),
            No("a client that goes away is no loss to a listener"),
            Tests(&[FULL]),
            Tests(&[
                BAD,
                "headwater::tcp::what_is_no_frame_or_for_nobody_is_told_and_hurts_no_one_else",
            ]),
            Tests(&[RELOAD]),
            No("Siddhi's frames have no TLS"),
            No("Siddhi's frames have no login"),
            NO_ON_ERROR,
        ],
    },
    Row {
        connectors: &["source websocket"],
        server: "websockets {websockets} of Python",
        cells: [
            Tests(&[
                "headwater::websocket::a_server_gets_and_gives_every_row_in_order",
                "headwater::websocket::an_idle_connection_is_closed_and_opened_where_it_is_needed",
            ]),
            Tests(&["headwater::websocket::a_server_gets_and_gives_every_row_in_order"]),
            No("the protocol keeps nothing for who is away"),
            Tests(&[
                "headwater::websocket::a_silent_peer_is_lost_within_five_seconds",
                "headwater::websocket::a_server_that_restarts_gets_all_and_is_read_again",
            ]),
            Tests(&["headwater::websocket::a_full_app_is_felt_by_its_server_and_nothing_is_lost"]),
            Tests(&["headwater::websocket::a_payload_of_a_server_that_cannot_be_read_is_kept"]),
            Tests(&["headwater::websocket::a_reload_takes_what_was_sent_and_connects_again"]),
            Tests(&["headwater::websocket::tls_both_ways_with_java_key_stores"]),
            Tests(&["headwater::websocket::only_who_proves_who_he_is_is_let_in"]),
            NO_ON_ERROR,
        ],
    },
    Row {
        connectors: &["source websocket-server"],
        server: "websockets {websockets} of Python, and our websocket sink",
        cells: [
            Tests(&[
                "headwater::websocket::clients_on_any_path_are_read_and_a_bad_payload_hurts_no_neighbour",
                "headwater::websocket::a_port_that_is_taken_is_waited_for_or_goes_by_on_error",
            ]),
            Tests(&[RELOAD]),
            No("the protocol keeps nothing for who is away"),
            Tests(&["headwater::websocket::a_silent_peer_is_lost_within_five_seconds"]),
            Tests(&[FULL]),
            Tests(&[
                BAD,
                "headwater::websocket::clients_on_any_path_are_read_and_a_bad_payload_hurts_no_neighbour",
            ]),
            Tests(&[RELOAD]),
            Tests(&["headwater::websocket::tls_both_ways_with_java_key_stores"]),
            No("its options know no login"),
            NO_ON_ERROR,
        ],
    },
    Row {
        connectors: &["store rdbms"],
        server: "mariadb",
        cells: STORE,
    },
    Row {
        connectors: &["store rdbms"],
        server: "mysql",
        cells: STORE,
    },
    Row {
        connectors: &["store rdbms"],
        server: "postgres",
        cells: STORE,
    },
    Row {
        connectors: &["store rdbms"],
        server: "SQLite {sqlite} inside the process",
        cells: [
            Tests(&["connect::rdbms::tests::rows_go_in_and_are_found"]),
            Tests(&["connect::rdbms::tests::updates_and_deletes_see_the_writes_before_them"]),
            Tests(&[
                "connect::rdbms::tests::an_epoch_is_one_commit_with_its_number_and_positions",
                "headwater::crash::every_row_is_there_once_and_every_file_is_moved",
            ]),
            Tests(&["headwater::crash::a_database_that_is_behind_is_said"]),
            Tests(&["connect::rdbms::tests::a_locked_database_is_waited_for"]),
            Tests(&["connect::rdbms::tests::a_bad_row_takes_its_chunk_with_it_and_no_other"]),
            Tests(&[
                "headwater::stores::a_database_in_a_file_is_reloaded_and_waited_for_as_on_error_says",
            ]),
            NO_NETWORK,
            NO_NETWORK,
            Tests(&[
                "server::store::tests::a_store_that_is_away_is_waited_for_or_its_rows_are_kept",
                "headwater::stores::a_database_in_a_file_is_reloaded_and_waited_for_as_on_error_says",
            ]),
        ],
    },
    Row {
        connectors: &["store rdbms"],
        server: "no SQL Server, but a peer of the test",
        cells: [
            No("no server was there to try it: golden SQL alone"),
            No("no server was there to try it: golden SQL alone"),
            No("no server was there to try it: golden SQL alone"),
            Tests(&["connect::rdbms::sqlserver::tests::nobody_listens"]),
            Tests(&["connect::rdbms::sqlserver::tests::a_silent_peer_is_given_up_in_time"]),
            Tests(&["connect::rdbms::sqlserver::tests::what_is_no_sql_server_is_no_crash"]),
            No("no server was there to try it: golden SQL alone"),
            No("no server was there to try it: golden SQL alone"),
            No("no server was there to try it: golden SQL alone"),
            No("no server was there to try it: golden SQL alone"),
        ],
    },
    Row {
        connectors: &["store rdbms"],
        server: "no Oracle, nor its client library",
        cells: [
            Tests(&[
                "connect::rdbms::oracle::tests::a_machine_without_the_library_is_told_what_to_install",
            ]),
            No("no server was there to try it: golden SQL alone"),
            No("no server was there to try it: golden SQL alone"),
            Tests(&["connect::rdbms::oracle::tests::errors_of_the_server_are_told_apart"]),
            No("no server was there to try it: golden SQL alone"),
            No("no server was there to try it: golden SQL alone"),
            No("no server was there to try it: golden SQL alone"),
            No("no server was there to try it: golden SQL alone"),
            No("no server was there to try it: golden SQL alone"),
            No("no server was there to try it: golden SQL alone"),
        ],
    },
    Row {
        connectors: &["store mongodb"],
        server: "mongodb",
        cells: [
            Tests(&[
                "headwater::mongodb::rows_lie_as_siddhi_has_them_and_every_condition_works",
                "headwater::mongodb::a_condition_that_the_server_has_no_words_for_is_worked_out_here_or_refused",
            ]),
            Tests(&["headwater::mongodb::rows_lie_as_siddhi_has_them_and_every_condition_works"]),
            Tests(&[
                "headwater::mongodb::a_run_that_was_killed_leaves_every_row_once_where_it_has_a_key",
            ]),
            Tests(&[STORE_SILENT]),
            Tests(&[STORE_SLOW]),
            Tests(&[
                "headwater::mongodb::what_is_refused_is_given_back_by_name_and_its_neighbours_are_kept",
            ]),
            Tests(&[STORE_RELOAD]),
            Tests(&["headwater::mongodb::tls_asks_for_a_certificate_that_is_trusted"]),
            Tests(&[
                "headwater::mongodb::a_login_that_is_refused_is_no_outage_and_shows_no_password",
            ]),
            Tests(&[STORE_POLICIES]),
        ],
    },
    Row {
        connectors: &["store redis"],
        server: "redis",
        cells: [
            Tests(&["headwater::redis::records_lie_as_siddhi_has_them_and_every_condition_works"]),
            Tests(&["headwater::redis::records_lie_as_siddhi_has_them_and_every_condition_works"]),
            Tests(&["headwater::redis::a_run_that_was_killed_leaves_every_record_once"]),
            Tests(&[STORE_SILENT]),
            Tests(&[STORE_SLOW]),
            Tests(&[
                "headwater::redis::what_cannot_be_kept_is_refused_and_its_neighbours_are_kept",
            ]),
            Tests(&[STORE_RELOAD]),
            No("no option of the store names TLS"),
            Tests(&["headwater::redis::only_who_has_the_password_is_let_in"]),
            Tests(&[STORE_POLICIES]),
        ],
    },
];

/// One test asks all databases the same.
const STORE: [Cell; CASES.len()] = [
    Tests(&["connect::rdbms::options_of_tables_on_servers"]),
    Tests(&["connect::rdbms::operations_mean_the_same_in_every_database"]),
    Tests(&[
        "connect::rdbms::an_epoch_is_one_commit_and_a_lost_server_loses_only_what_was_not_committed",
    ]),
    Tests(&["headwater::databases::a_server_that_is_stopped_is_noticed_and_waited_for"]),
    Tests(&[STORE_SLOW]),
    Tests(&[
        "connect::rdbms::every_value_arrives_as_it_is_in_every_database",
        "connect::rdbms::what_a_database_cannot_hold_is_refused_by_the_columns_name",
    ]),
    Tests(&["headwater::databases::reloads_while_rows_are_written_write_each_once"]),
    Tests(&[STORE_TLS]),
    Tests(&["connect::rdbms::a_login_that_is_refused_is_no_outage"]),
    Tests(&[STORE_POLICIES]),
];
