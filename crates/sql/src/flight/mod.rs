//! Flight SQL: statements by gRPC, answers as Arrow has them, for ADBC and JDBC.
//!
//! A ticket is the statement itself, so the server keeps nothing between two requests; a prepared statement is the same.
//!
//! Promises: a statement is the same as at `POST /sql`, with the same turns, bounds and errors. Never: a statement that
//! changes something; a parameter, which is refused; a login, which whoever serves the router asks for.

mod catalog;

use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use arrow_flight::encode::FlightDataEncoderBuilder;
use arrow_flight::error::FlightError;
use arrow_flight::flight_service_server::FlightServiceServer;
use arrow_flight::sql::metadata::SqlInfoData;
use arrow_flight::sql::server::{FlightSqlService, PeekableFlightDataStream};
use arrow_flight::sql::{
    ActionClosePreparedStatementRequest, ActionCreatePreparedStatementRequest,
    ActionCreatePreparedStatementResult, CommandGetCatalogs, CommandGetDbSchemas,
    CommandGetSqlInfo, CommandGetTableTypes, CommandGetTables, CommandPreparedStatementQuery,
    CommandPreparedStatementUpdate, CommandStatementIngest, CommandStatementQuery,
    CommandStatementUpdate, DoPutPreparedStatementResult, ProstMessageExt, SqlInfo,
    TicketStatementQuery,
};
use arrow_flight::{
    Action, FlightData, FlightDescriptor, FlightEndpoint, FlightInfo, HandshakeRequest,
    HandshakeResponse, IpcMessage, SchemaAsIpc, Ticket,
};
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::arrow::ipc::writer::IpcWriteOptions;
use futures_util::{Stream, StreamExt as _, TryStreamExt as _, stream};
use prost::Message as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::service::Routes;
use tonic::{Request, Response, Status, Streaming};

use crate::batches::Batches;
use crate::engine::Engine;
use crate::error::Error;
use crate::postgres::Hide;

/// Bytes of a request: a statement of 1 MB, and what is around it.
const MESSAGE_MAX: usize = 2 << 20;

type Data = Pin<Box<dyn Stream<Item = Result<FlightData, Status>> + Send>>;

/// What a server answers by Flight SQL.
pub struct FlightSql {
    engine: Arc<Engine>,
    /// The folder of the store.
    store: PathBuf,
    /// Statements that are answered at a time, by whatever door they come.
    turns: Arc<Semaphore>,
    hide: Hide,
    about: SqlInfoData,
}

impl FlightSql {
    /// # Errors
    /// What is said of the server cannot be put together, which is a defect.
    pub fn new(
        engine: Arc<Engine>,
        store: PathBuf,
        turns: Arc<Semaphore>,
        hide: Hide,
    ) -> Result<FlightSql, Error> {
        Ok(FlightSql {
            engine,
            store,
            turns,
            hide,
            about: catalog::about().map_err(|error| Error::Failed(error.to_string()))?,
        })
    }

    /// The paths of the service.
    pub fn router(self) -> axum::Router {
        let service = FlightServiceServer::new(self).max_decoding_message_size(MESSAGE_MAX);
        Routes::new(service).into_axum_router()
    }

    async fn turn(&self) -> Result<OwnedSemaphorePermit, Status> {
        let turn = Arc::clone(&self.turns).acquire_owned().await;
        turn.map_err(|_| Status::unavailable("the server stops"))
    }

    /// An error as a client is told it.
    fn said(&self, error: &Error, sql: &str) -> Status {
        let mut status = status(error, sql);
        if let Some(message) = (self.hide)(status.message()) {
            status = Status::new(status.code(), message);
        }
        status
    }

    async fn columns(&self, sql: &str) -> Result<SchemaRef, Status> {
        let _turn = self.turn().await?;
        let columns = self
            .engine
            .columns(self.store.clone(), sql.to_owned())
            .await;
        let columns = columns.map_err(|error| self.said(&error, sql))?;
        Ok(Arc::new(without_dictionaries(&columns)))
    }

    /// How the rows of a statement are got.
    async fn info(
        &self,
        sql: &str,
        asked: FlightDescriptor,
    ) -> Result<Response<FlightInfo>, Status> {
        let ticket = TicketStatementQuery {
            statement_handle: sql.to_owned().into(),
        };
        info(
            asked,
            ticket.as_any().encode_to_vec(),
            &*self.columns(sql).await?,
        )
    }

    async fn rows(&self, sql: &str) -> Result<Response<Data>, Status> {
        let turn = self.turn().await?;
        let rows = self
            .engine
            .batches(self.store.clone(), sql.to_owned())
            .await;
        let rows = rows.map_err(|error| self.said(&error, sql))?;
        let schema = Arc::clone(&rows.schema);
        let (hide, sql) = (Arc::clone(&self.hide), sql.to_owned());
        let rows = InTurn { rows, _turn: turn }.map_err(move |error| {
            let status = status(&error, &sql);
            let hidden = hide(status.message());
            FlightError::from(match hidden {
                Some(message) => Status::new(status.code(), message),
                None => status,
            })
        });
        Ok(Response::new(encoded(schema, rows)))
    }
}

/// Rows of a statement that has its turn until they have come, or nobody wants them.
struct InTurn {
    rows: Batches,
    _turn: OwnedSemaphorePermit,
}

impl Stream for InTurn {
    type Item = Result<RecordBatch, Error>;

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<RecordBatch, Error>>> {
        self.rows.poll_next_unpin(context)
    }
}

fn encoded(
    schema: SchemaRef,
    rows: impl Stream<Item = Result<RecordBatch, FlightError>> + Send + 'static,
) -> Data {
    let encoder = FlightDataEncoderBuilder::new().with_schema(schema);
    Box::pin(encoder.build(rows).map_err(Status::from))
}

/// The columns as they are sent: values in the place of dictionaries.
fn without_dictionaries(schema: &Schema) -> Schema {
    let fields = schema.fields().iter().map(|field| match field.data_type() {
        DataType::Dictionary(_, value) => {
            Field::new(field.name(), (**value).clone(), field.is_nullable())
        }
        _ => (**field).clone(),
    });
    Schema::new(fields.collect::<Vec<Field>>())
}

fn info(
    asked: FlightDescriptor,
    ticket: Vec<u8>,
    schema: &Schema,
) -> Result<Response<FlightInfo>, Status> {
    let endpoint = FlightEndpoint::new().with_ticket(Ticket::new(ticket));
    let info = FlightInfo::new().try_with_schema(schema).map_err(defect)?;
    Ok(Response::new(
        info.with_endpoint(endpoint).with_descriptor(asked),
    ))
}

fn defect(cause: impl std::fmt::Display) -> Status {
    Status::internal(format!("internal error: {cause}; please report it"))
}

/// The text of a statement, out of a ticket or a handle.
fn text(bytes: &[u8]) -> Result<&str, Status> {
    std::str::from_utf8(bytes).map_err(|_| Status::invalid_argument("the statement is not UTF-8"))
}

fn status(error: &Error, sql: &str) -> Status {
    match error {
        Error::Statement(fault) => {
            let at = usize::try_from(fault.span.start).unwrap_or(0);
            let before = sql.get(..at).unwrap_or(sql);
            let line = before.matches('\n').count() + 1;
            let column = before
                .rsplit('\n')
                .next()
                .map_or(0, |line| line.chars().count())
                + 1;
            let help = fault.help.as_ref().map(|help| format!("; {help}"));
            Status::invalid_argument(format!(
                "{} (line {line}, column {column}){}",
                fault.message,
                help.unwrap_or_default()
            ))
        }
        Error::Limit(message) => Status::resource_exhausted(message),
        Error::Values(_) => Status::invalid_argument(error.to_string()),
        Error::Failed(message) => Status::internal(message),
    }
}

/// Columns as an answer to an action carries them.
fn message_of(schema: &Schema) -> Result<IpcMessage, Status> {
    let options = IpcWriteOptions::default();
    IpcMessage::try_from(SchemaAsIpc::new(schema, &options)).map_err(defect)
}

const READ_ONLY: &str =
    "statements here only read: rows come into the event store by apps and batch scripts";

const NO_PARAMETERS: &str = "parameters are not taken by Flight SQL: write the values into the statement, or use --sql-postgres";

#[tonic::async_trait]
impl FlightSqlService for FlightSql {
    type FlightService = FlightSql;

    /// The login was judged before; a client sends it again with each request.
    async fn do_handshake(
        &self,
        request: Request<Streaming<HandshakeRequest>>,
    ) -> Result<
        Response<Pin<Box<dyn Stream<Item = Result<HandshakeResponse, Status>> + Send>>>,
        Status,
    > {
        let login = request.metadata().get("authorization").cloned();
        let answer = HandshakeResponse::default();
        let answer = stream::iter([Ok(answer)]);
        let mut response: Response<Pin<Box<dyn Stream<Item = _> + Send>>> =
            Response::new(Box::pin(answer));
        if let Some(login) = login {
            response.metadata_mut().insert("authorization", login);
        }
        Ok(response)
    }

    async fn get_flight_info_statement(
        &self,
        query: CommandStatementQuery,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        self.info(&query.query, request.into_inner()).await
    }

    async fn get_flight_info_prepared_statement(
        &self,
        query: CommandPreparedStatementQuery,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        let sql = text(&query.prepared_statement_handle)?;
        self.info(sql, request.into_inner()).await
    }

    async fn do_get_statement(
        &self,
        ticket: TicketStatementQuery,
        _: Request<Ticket>,
    ) -> Result<Response<Data>, Status> {
        self.rows(text(&ticket.statement_handle)?).await
    }

    async fn do_get_prepared_statement(
        &self,
        query: CommandPreparedStatementQuery,
        _: Request<Ticket>,
    ) -> Result<Response<Data>, Status> {
        self.rows(text(&query.prepared_statement_handle)?).await
    }

    async fn do_action_create_prepared_statement(
        &self,
        query: ActionCreatePreparedStatementRequest,
        _: Request<Action>,
    ) -> Result<ActionCreatePreparedStatementResult, Status> {
        let columns = self.columns(&query.query).await?;
        Ok(ActionCreatePreparedStatementResult {
            prepared_statement_handle: query.query.into(),
            dataset_schema: message_of(&columns)?.0,
            parameter_schema: message_of(&Schema::empty())?.0,
        })
    }

    /// Nothing is kept of one.
    async fn do_action_close_prepared_statement(
        &self,
        _: ActionClosePreparedStatementRequest,
        _: Request<Action>,
    ) -> Result<(), Status> {
        Ok(())
    }

    async fn do_put_prepared_statement_query(
        &self,
        _: CommandPreparedStatementQuery,
        _: Request<PeekableFlightDataStream>,
    ) -> Result<DoPutPreparedStatementResult, Status> {
        Err(Status::unimplemented(NO_PARAMETERS))
    }

    async fn do_put_statement_update(
        &self,
        _: CommandStatementUpdate,
        _: Request<PeekableFlightDataStream>,
    ) -> Result<i64, Status> {
        Err(Status::invalid_argument(READ_ONLY))
    }

    async fn do_put_prepared_statement_update(
        &self,
        _: CommandPreparedStatementUpdate,
        _: Request<PeekableFlightDataStream>,
    ) -> Result<i64, Status> {
        Err(Status::invalid_argument(READ_ONLY))
    }

    async fn do_put_statement_ingest(
        &self,
        _: CommandStatementIngest,
        _: Request<PeekableFlightDataStream>,
    ) -> Result<i64, Status> {
        Err(Status::invalid_argument(READ_ONLY))
    }

    async fn get_flight_info_catalogs(
        &self,
        query: CommandGetCatalogs,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        let ticket = query.as_any().encode_to_vec();
        info(request.into_inner(), ticket, &query.into_builder().schema())
    }

    async fn do_get_catalogs(
        &self,
        query: CommandGetCatalogs,
        _: Request<Ticket>,
    ) -> Result<Response<Data>, Status> {
        one(catalog::catalogs(query))
    }

    async fn get_flight_info_schemas(
        &self,
        query: CommandGetDbSchemas,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        let ticket = query.as_any().encode_to_vec();
        info(request.into_inner(), ticket, &query.into_builder().schema())
    }

    async fn do_get_schemas(
        &self,
        query: CommandGetDbSchemas,
        _: Request<Ticket>,
    ) -> Result<Response<Data>, Status> {
        one(catalog::schemas(query))
    }

    async fn get_flight_info_tables(
        &self,
        query: CommandGetTables,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        let ticket = query.as_any().encode_to_vec();
        info(request.into_inner(), ticket, &query.into_builder().schema())
    }

    async fn do_get_tables(
        &self,
        query: CommandGetTables,
        _: Request<Ticket>,
    ) -> Result<Response<Data>, Status> {
        let _turn = self.turn().await?;
        let tables = self.engine.tables(self.store.clone()).await;
        let tables = tables.map_err(|error| self.said(&error, ""))?;
        one(catalog::tables(query, &tables))
    }

    async fn get_flight_info_table_types(
        &self,
        query: CommandGetTableTypes,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        let ticket = query.as_any().encode_to_vec();
        info(request.into_inner(), ticket, &query.into_builder().schema())
    }

    async fn do_get_table_types(
        &self,
        query: CommandGetTableTypes,
        _: Request<Ticket>,
    ) -> Result<Response<Data>, Status> {
        one(catalog::table_types(query))
    }

    async fn get_flight_info_sql_info(
        &self,
        query: CommandGetSqlInfo,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        let ticket = query.as_any().encode_to_vec();
        let schema = query.into_builder(&self.about).schema();
        info(request.into_inner(), ticket, &schema)
    }

    async fn do_get_sql_info(
        &self,
        query: CommandGetSqlInfo,
        _: Request<Ticket>,
    ) -> Result<Response<Data>, Status> {
        one(query.into_builder(&self.about).build())
    }

    /// What is said of the server is put together when it starts.
    async fn register_sql_info(&self, _: i32, _: &SqlInfo) {}
}

/// An answer of one batch.
fn one(batch: Result<RecordBatch, FlightError>) -> Result<Response<Data>, Status> {
    let batch = batch.map_err(defect)?;
    let schema = batch.schema();
    Ok(Response::new(encoded(schema, stream::iter([Ok(batch)]))))
}
