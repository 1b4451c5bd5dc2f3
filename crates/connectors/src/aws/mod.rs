//! Amazon S3 and SQS, and what both need: credentials, and requests over this server's connections.

mod account;
mod requests;
pub mod s3;
pub mod sqs;

pub(crate) use account::Account;
pub(crate) use requests::Requests;
