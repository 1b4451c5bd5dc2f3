//! Amazon's services: objects of S3 and queues of SQS, with what both need: who asks, and requests over
//! the connections of this server.

mod account;
mod requests;
pub mod s3;
pub mod sqs;

pub(crate) use account::Account;
pub(crate) use requests::Requests;
