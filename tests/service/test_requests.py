"""Answers carry the id of their request, the log can be lines of JSON that name it, and traces go to OpenTelemetry."""

import json
import logging
import os
import re
import signal
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest
from engine_cases import linear_state, row
from http_cases import JSON, Web, ask, until

from osamd.cli.app import main
from osamd.service.request_ids import JsonLines, Requests
from osamd.service.telemetry import Tracing, tracing

SAMPLE = json.dumps({"features": row(1).tolist()}).encode()


def asked(web, app, method, path, headers=(), body=b""):
    return web.run(ask(app, method, path, headers, (body,)))


def test_an_id_is_taken_and_given_back_and_made_where_there_is_none_that_can_be_kept(state):
    with Web(state) as web:
        app = Requests(web.app)
        known = asked(web, app, "GET", "/v1/status", [("x-request-id", "order-17")])
        assert known.header("x-request-id") == "order-17"
        made = {asked(web, app, "GET", "/v1/status").header("x-request-id") for _ in range(3)}
        assert len(made) == 3
        for bad in ("", "a b", "x" * 129, "tab\there"):
            given = asked(web, app, "GET", "/v1/status", [("x-request-id", bad)]).header("x-request-id")
            assert re.fullmatch("[0-9a-f]{16}", given)
        refused = asked(web, app, "POST", "/v1/samples", [("x-request-id", "other")], b"{}")  # before any route
        assert (refused.status, refused.header("x-request-id")) == (415, "other")


def test_metrics_know_requests_by_their_whole_route(state):
    with Web(state) as web:
        web.get("/v1/status")
        web.get("/v1/queries")
        told = web.get("/metrics").body.decode()
        for route in ("/v1/status", "/v1/queries"):
            assert f'osamd_request_seconds_count{{route="{route}",status="200"}} 1.0' in told


def test_a_failure_has_its_id_in_the_answer_and_in_the_log(state, caplog, monkeypatch):
    with Web(state) as web:
        monkeypatch.setattr(web.engine, "status", lambda: 1 / 0)
        app, lines = Requests(web.app), []
        handler = logging.Handler()
        handler.emit = lambda record: lines.append(JsonLines().format(record))
        logging.getLogger("osamd.service").addHandler(handler)
        try:
            with pytest.raises(ZeroDivisionError):
                asked(web, app, "GET", "/v1/status", [("x-request-id", "bad-one")])
        finally:
            logging.getLogger("osamd.service").removeHandler(handler)
        told = json.loads(lines[0])
        assert told["request_id"] == "bad-one"
        assert told["level"] == "error"
        assert "ZeroDivisionError" in told["exception"]


def started(folder, *options, **variables):
    command = [sys.executable, "-m", "osamd", "serve", "--dir", str(folder), "--port", "0", *options]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=os.environ | variables)
    return process, re.search(r"at (http://\S+)", process.stdout.readline())[1]


def ended(process):
    process.send_signal(signal.SIGTERM)
    return process.communicate(timeout=60)[1]


def test_the_log_is_one_json_object_per_line_with_a_line_for_every_request(tmp_path):
    linear_state(tmp_path / "state")
    process, url = started(tmp_path / "state", "--log-format", "json")
    httpx.post(f"{url}/v1/samples", content=SAMPLE, headers={**dict(JSON), "x-request-id": "first"})
    httpx.get(f"{url}/no/such/path?secret=1", headers={"x-request-id": "second"})
    said = ended(process)
    first, second = (json.loads(line) for line in said.splitlines())
    assert first["request_id"] == "first"
    expected = {"logger": "osamd.requests", "level": "info", "method": "POST", "route": "/v1/samples", "status": 200}
    assert {name: first[name] for name in expected} == expected
    assert first["ms"] > 0.0
    assert (second["request_id"], second["route"], second["status"]) == ("second", "other", 404)
    assert "secret" not in said


def test_as_text_the_log_has_no_line_for_a_request(tmp_path):
    linear_state(tmp_path / "state")
    process, url = started(tmp_path / "state")
    answer = httpx.get(f"{url}/v1/status")
    assert re.fullmatch("[0-9a-f]{16}", answer.headers["x-request-id"])
    assert ended(process) == ""


def test_a_format_that_is_none_is_refused(tmp_path, capsys):
    assert main(["serve", "--dir", str(tmp_path), "--log-format", "jsn"]) == 2
    assert "Did you mean 'json'?" in capsys.readouterr().err


class Spans:
    """Traces that are kept in memory."""

    def __init__(self):
        sdk = pytest.importorskip("opentelemetry.sdk.trace", reason="traces need pip install 'osamd[telemetry]'")
        from opentelemetry.sdk.trace.export import SimpleSpanProcessor
        from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

        self._kept = InMemorySpanExporter()
        provider = sdk.TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self._kept))
        self.tracing = Tracing(provider)

    def named(self):
        return {span.name: span for span in self._kept.get_finished_spans()}


def test_a_request_is_a_span_below_that_of_its_caller_and_its_time_with_the_engine_one_below_it(state):
    spans = Spans()
    with Web(state, tracing=spans.tracing) as web:
        caller = ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
        headers = [*JSON, caller, ("x-request-id", "order-17")]
        assert asked(web, Requests(web.app, spans.tracing), "POST", "/v1/samples", headers, SAMPLE).status == 200
    request, engine = spans.named()["POST /v1/samples"], spans.named()["engine observe"]
    assert f"{request.context.trace_id:032x}" == "0af7651916cd43dd8448eb211c80319c"
    assert f"{request.parent.span_id:016x}" == "b7ad6b7169203331"
    assert engine.parent.span_id == request.context.span_id
    assert request.attributes["http.route"] == "/v1/samples"
    assert request.attributes["http.response.status_code"] == 200
    assert request.attributes["osamd.request_id"] == "order-17"


def test_a_line_of_the_log_names_the_trace(state):
    spans = Spans()
    record = logging.LogRecord("osamd", logging.INFO, "", 0, "told", None, None)
    assert "trace_id" not in json.loads(JsonLines().format(record))
    with spans.tracing.request({"method": "GET", "headers": []}) as span:
        told = json.loads(JsonLines().format(record))
    assert told["trace_id"] == f"{span.get_span_context().trace_id:032x}"


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_SDK_DISABLED": "true"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_TRACES_EXPORTER": "none"},
    ],
)
def test_without_the_variables_there_are_no_traces(variables, monkeypatch):
    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        monkeypatch.delenv(name)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert tracing() is None


def test_without_the_variables_nothing_of_opentelemetry_is_imported():
    program = "import sys, osamd.service.server, osamd.service.telemetry as t; t.tracing()"
    program += (
        "; assert not [name for name in sys.modules if name.startswith(('opentelemetry.sdk', 'opentelemetry.exp'))]"
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    subprocess.run([sys.executable, "-c", program], check=True, env=environment)


def test_the_service_sends_its_traces_to_the_endpoint_of_the_variable(tmp_path):
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="traces need pip install 'osamd[telemetry]'")
    heard = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self):
            heard.append((self.path, self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    linear_state(tmp_path / "state")
    endpoint = f"http://127.0.0.1:{server.server_port}"
    names = {"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_SERVICE_NAME": "pumps"}
    process, url = started(tmp_path / "state", **names, OTEL_EXPORTER_OTLP_COMPRESSION="none")
    httpx.get(f"{url}/v1/status")
    ended(process)
    until(lambda: heard, "the traces are sent")
    server.shutdown()
    server.server_close()
    assert heard[0][0] == "/v1/traces"
    assert b"GET /v1/status" in heard[0][1]
    assert b"pumps" in heard[0][1]
