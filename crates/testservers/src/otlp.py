import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

KINDS = {
    "/v1/logs": ExportLogsServiceRequest,
    "/v1/metrics": ExportMetricsServiceRequest,
    "/v1/traces": ExportTraceServiceRequest,
}
got = {path: [] for path in KINDS}


class Collector(BaseHTTPRequestHandler):
    def answer(self, status, body=b""):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        kind = KINDS.get(self.path)
        if kind is None or self.headers["Content-Type"] != "application/x-protobuf":
            return self.answer(404)
        message = kind()
        try:
            message.ParseFromString(body)
        except DecodeError:
            return self.answer(400)
        # A field that the official messages do not know would be lost here.
        if message.SerializeToString() and len(message.SerializeToString()) != len(body):
            return self.answer(400)
        request = MessageToDict(message)
        request["key"] = self.headers["api-key"]
        got[self.path].append(request)
        self.answer(200)

    def do_GET(self):
        self.answer(200, json.dumps(got.get(self.path, [])).encode())

    def log_message(self, *_):
        pass


ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Collector).serve_forever()
