//! The binary and its connectors as their users see them: processes that run, real servers beside them.
//!
//! All of it is one program, so that it is linked once and its tests share the servers that they start.

/// Ends a test that takes more than 10 s, unless it is in the sample of this commit.
macro_rules! long_test {
    () => {
        fn here() {}
        if !testservers::sample::is_due(std::any::type_name_of_val(&here)) {
            return;
        }
    };
}

mod access;
mod amazon;
mod analytics;
mod backup;
mod bench;
mod bounds;
mod broker;
mod capp;
mod changes;
mod crash;
mod dashboard;
mod databases;
mod deploy;
mod docs;
mod durable;
mod email;
mod email_source;
mod errors;
mod eventstore;
mod file_events;
mod gateway;
mod gateway_access;
mod gateway_http2;
mod gateway_import;
mod gateway_manage;
mod gateway_news;
mod gateway_schemas;
mod gateway_webhook;
mod gateway_websub;
mod grpc;
mod http;
mod http_answers;
mod http_listener;
mod http_options;
mod http_pairs;
mod kafka;
mod kit;
mod learn;
mod memory;
mod mongodb;
mod mqtt;
mod nats;
mod network;
mod operate;
mod otlp;
mod preview;
mod prometheus;
mod query;
mod rabbitmq;
mod redis;
mod reload;
mod rogue;
mod run;
mod s3;
mod scripts;
mod secrets;
mod send;
mod service;
mod sql;
mod sql_flight;
mod sql_jobs;
mod sql_postgres;
mod sqs;
mod sse;
mod statistics;
mod status;
mod table;
mod tap;
mod tcp;
mod trial;
mod upkeep;
mod websocket;
mod websub;
mod wso2event;
