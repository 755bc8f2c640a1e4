"""Many streams in one service: each with its own log, tokens and pages, found and archived while the service runs."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys

import httpx
import pytest
from engine_cases import linear_state, module_state, row
from http_cases import ServedHere, until

from osamd.cli.app import main
from osamd.service import auth, server
from osamd.service.folder import open_state


class House:
    """`osamd serve --dir ROOT` in a process of its own."""

    def __init__(self, root, *options):
        here = os.path.dirname(__file__)  # where modules of networks are imported from
        command = [sys.executable, "-m", "osamd", "serve", "--dir", str(root), "--port", "0", *options]
        environment = os.environ | {"PYTHONPATH": f"{here}:{os.environ.get('PYTHONPATH', '')}"}
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        )
        found = re.search(r"at (http://[^; ]+)", self.process.stdout.readline())
        assert found, self.process.communicate()[1]
        self.http = httpx.Client(base_url=found[1], timeout=30)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end(signal.SIGTERM)

    def end(self, how):
        self.http.close()
        if self.process.poll() is None:
            self.process.send_signal(how)
        self.errors = self.process.communicate(timeout=60)[1]
        return self.process.returncode

    def send(self, stream, *numbers):
        samples = [{"features": row(n).tolist(), "id": f"id-{n}"} for n in numbers]
        return self.http.post(f"/{stream}/v1/samples", json={"samples": samples}).raise_for_status().json()["decisions"]


class HouseHere(House):
    """The same in a thread of this process, for tests that neither kill it nor read what it wrote."""

    def __init__(self, root):
        self._served = ServedHere(root)
        self.http = httpx.Client(base_url=self._served.url, timeout=30)

    def __exit__(self, *_):
        self.http.close()
        self._served.end()


@pytest.fixture
def root(tmp_path):
    for name in ("pumps", "mail"):
        linear_state(tmp_path / "root" / name, seed=len(name))
    return tmp_path / "root"


def test_streams_have_their_own_logs_and_pages(root):
    with HouseHere(root) as house:
        house.send("pumps", *range(10))
        house.send("mail", *range(4))
        assert [house.http.get(f"/{name}/v1/status").json()["rounds"] for name in ("pumps", "mail")] == [10, 4]
        assert house.http.get("/readyz").json()["streams"] == ["mail", "pumps"]
        index = house.http.get("/")
        assert 'href="pumps/label"' in index.text
        assert "default-src 'none'" in index.headers["content-security-policy"]
        assert house.http.get("/pumps/").headers["location"] == "/pumps/dashboard"
        page = house.http.get("/pumps/label")
        assert page.status_code == 200
        assert 'src="assets/label.js"' in page.text
        assert house.http.get("/pumps/assets/label.js").status_code == 200
        assert house.http.get("/nothing/v1/status").status_code == 404


def test_tokens_and_logins_are_of_one_stream(root):
    log = server.open_log(open_state(root / "mail"), None)
    log.make_tables()
    token = auth.make_token(log, "anna", "annotator")
    log.close()
    with HouseHere(root) as house:
        bearer = {"authorization": f"Bearer {token}"}
        assert house.http.get("/mail/v1/status").status_code == 401
        assert house.http.get("/mail/v1/status", headers=bearer).status_code == 200
        assert house.http.get("/pumps/v1/status").status_code == 200  # open to this machine
        login = house.http.post("/mail/login", json={"token": token})
        assert "Path=/mail;" in login.headers["set-cookie"]


def test_a_stream_that_is_made_while_it_runs_is_found_and_an_archived_one_is_closed(root, capsys):
    with HouseHere(root) as house:
        linear_state(root / "late", seed=9)
        until(lambda: house.http.get("/late/v1/status").status_code == 200, "the new stream is served")
        assert main(["streams", str(root), "--archive", "mail"]) == 0
        until(lambda: house.http.get("/mail/v1/status").status_code == 404, "the archived one is closed")
        capsys.readouterr()
        assert main(["streams", str(root)]) == 0
        assert capsys.readouterr().out.splitlines() == ["late", "mail  archived", "pumps"]
        assert main(["streams", str(root), "--restore", "mail"]) == 0
        until(lambda: house.http.get("/mail/v1/status").status_code == 200, "it is served again")
    assert main(["streams", str(root), "--archive", "nobody"]) == 2


def test_streams_that_are_killed_go_on_where_they_were(root):
    module_state(root / "network")
    with House(root) as house:
        for name in ("pumps", "mail", "network"):
            house.send(name, *range(20))
        house.end(signal.SIGKILL)
    with House(root) as house:
        told = [house.http.get(f"/{name}/v1/status").json()["rounds"] for name in ("pumps", "mail", "network")]
        assert told == [20, 20, 20]
        assert [one["round"] for one in house.send("network", 3, 21)] == [3, 20]
        assert house.end(signal.SIGTERM) == 0


def test_a_stream_that_cannot_be_served_does_not_stop_the_others(root):
    (root / "mail" / "start.safetensors").write_bytes(b"nothing")
    with House(root) as house:
        house.send("pumps", 1)
        assert house.http.get("/mail/v1/status").status_code == 404
        assert house.http.get("/readyz").json()["refused"] == ["mail"]
        house.end(signal.SIGTERM)
        assert "the stream mail is not served" in house.errors


def test_each_stream_has_a_schema_of_its_own_in_postgresql(root, postgres):
    with House(root, "--database", postgres.url(postgres.database)) as house:
        house.send("pumps", *range(6))
        house.send("mail", *range(3))
    with House(root, "--database", postgres.url(postgres.database)) as house:
        assert [house.http.get(f"/{name}/v1/status").json()["rounds"] for name in ("pumps", "mail")] == [6, 3]
    assert "pumps" in open_state(root / "pumps").config.database
