"""The bridge against a real Label Studio server on this machine: `make test-label-studio` installs it and runs this."""

import os
import signal
import subprocess

import httpx
import pytest
from engine_cases import linear_state, row
from http_cases import Served, until
from label_studio_cases import TOKEN, Person, answered_under_kills

from osamd.client import Client
from osamd.service.label_studio.bridge import Bridge, Done
from osamd.service.label_studio.studio import LabelStudio
from osamd.service.label_studio.tasks import NONE

PROGRAM = os.environ.get("LABEL_STUDIO", "")
pytestmark = pytest.mark.skipif(not PROGRAM, reason="Label Studio is large: `make test-label-studio` installs it")


@pytest.fixture(scope="module")
def studio(tmp_path_factory):
    """The address of a server of our own, with SQLite in a temporary folder."""
    folder = tmp_path_factory.mktemp("label-studio")
    settings = {"LABEL_STUDIO_BASE_DATA_DIR": str(folder), "LABEL_STUDIO_ENABLE_LEGACY_API_TOKEN": "true"}
    settings |= {"COLLECT_ANALYTICS": "False", "LATEST_VERSION_CHECK": "False", "SENTRY_DSN": ""}
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [PROGRAM, "start", "--no-browser", "--internal-host", "127.0.0.1", "--port", str(port)]
    command += ["--data-dir", str(folder), "--username", "a@example.org", "--password", "only-for-tests-1"]
    command += ["--user-token", TOKEN, "--log-level", "ERROR"]
    with (folder / "server.log").open("w") as said:
        process = subprocess.Popen(
            command, env=os.environ | settings, stdout=said, stderr=said, start_new_session=True, cwd=folder
        )
    url = f"http://127.0.0.1:{port}"

    def up():
        assert process.poll() is None, (folder / "server.log").read_text()[-2000:]
        try:
            return httpx.get(f"{url}/health").is_success
        except httpx.TransportError:
            return False

    until(up, "Label Studio starts", 300)
    yield url
    os.killpg(process.pid, signal.SIGTERM)
    process.wait(60)


def test_200_queries_answered_there_become_200_answers_with_the_bridge_killed_5_times(tmp_path, studio):
    queries = 200
    with Served(linear_state(tmp_path / "state", sigma=1e9)) as service, Client(service.url) as client:
        told = client.decide_many([row(i).tolist() for i in range(queries)])
        assert all(one["query"] for one in told)
        chosen = answered_under_kills(service, studio, queries, 5)
        answers = [(one["round"], one["label"]) for one in client.labels()]
        assert len(answers) == queries
        assert sorted(answers) == sorted(chosen.items())


def test_display_none_of_these_removal_and_quick_passes_work_there(tmp_path, studio):
    with Served(linear_state(tmp_path / "other", sigma=1e9)) as service, Client(service.url) as client:
        display = {"text": "Hello", "fields": {"a": 1}, "link": "https://example.org/"}
        client.decide(row(1).tolist(), display=display)
        client.decide(row(2).tolist())
        client.decide(row(3).tolist())
        with LabelStudio(studio, TOKEN) as connected, Person(studio) as person:
            bridge = Bridge(client, connected, "Second")
            assert bridge.step() == Done(made=3)
            project = person.project("Second")
            tasks = person.tasks(project)
            assert tasks[0]["data"]["sample"] == "Hello"
            person.choose(tasks[0], NONE)
            person.skip(tasks[1])
            client.tell("cat", round=2)
            assert bridge.step() == Done(answered=1, removed=1)
            assert [one["answer"] for one in client.labels()] == ["label", "none"]
            assert [task["data"]["osamd_round"] for task in person.tasks(project)] == [0, 1]
            person.choose(tasks[1], "dog")
            assert bridge.step() == Done(answered=1)
            person.change(person.tasks(project)[1], "cat")
            assert bridge.step() == Done(corrected=1)
            assert [one["label"] for one in client.labels() if one["round"] == 1] == ["cat"]
            assert bridge.step() == Done()


def test_a_personal_access_token_works_there(tmp_path, studio):
    with httpx.Client(base_url=studio, headers={"authorization": f"Token {TOKEN}"}) as owner:
        owner.post("/api/jwt/settings", json={"api_tokens_enabled": True, "legacy_api_tokens_enabled": True})
        personal = owner.post("/api/token/", json={}).json()["token"]
    with LabelStudio(studio, personal) as connected:
        assert connected.projects("no such project") == []
