"""Queries become tasks in Label Studio, and annotations become answers: once each, whatever is killed."""

import base64
import io
import json
import threading
from contextlib import ExitStack

import httpx
import numpy as np
import pytest
from engine_cases import linear_state, row
from http_cases import Served, ServedHere, until
from label_studio_cases import PERSONAL, TOKEN, BridgeProcess, FakeStudio, Person, answered_under_kills

import osamd
from osamd.cli.app import main
from osamd.client import Client
from osamd.errors import InputError
from osamd.service.folder import create
from osamd.service.label_studio.bridge import Bridge, Done, run
from osamd.service.label_studio.studio import LabelStudio, LabelStudioError
from osamd.service.label_studio.tasks import KEY, NONE, config, kinds_in, png
from osamd.service.label_studio.wake import listening
from osamd.service.schema import Image, NamedClass, Schema


@pytest.fixture
def studio():
    with FakeStudio() as started:
        yield started


@pytest.fixture
def service(tmp_path):
    """A service that asks for every label."""
    with ServedHere(linear_state(tmp_path / "state", sigma=1e9)) as started:
        yield started


@pytest.fixture
def client(service):
    with Client(service.url) as connected:
        yield connected


@pytest.fixture
def person(studio):
    with Person(studio.url) as somebody:
        yield somebody


@pytest.fixture
def bridge_of():
    """Makes bridges from a client to a studio."""
    with ExitStack() as held:
        yield lambda client, studio, **options: Bridge(
            client, held.enter_context(LabelStudio(studio.url, TOKEN)), **options
        )


def ask(client, count, start=0, **display):
    """Samples that all become queries."""
    rows = [row(start + i).tolist() for i in range(count)]
    told = client.decide_many(rows, ids=[f"s{start + i}" for i in range(count)], displays=[display or None] * count)
    assert all(one["query"] for one in told)


def test_every_query_gets_one_task_with_the_prediction_and_its_annotation_becomes_the_answer(
    client, studio, person, bridge_of
):
    ask(client, 3)
    bridge = bridge_of(client, studio)
    assert bridge.step() == Done(made=3)
    assert bridge.step() == Done()
    tasks = list(studio.tasks.values())
    guesses = {query["round"]: query["guess"] for query in client.queries()}
    for task in tasks:
        prediction = task["predictions"][0]
        assert prediction["result"][0]["value"]["choices"] == [guesses[task["data"]["osamd_round"]]]
        assert 0.5 <= prediction["score"] <= 1.0
    person.choose(tasks[1], "dog")
    assert bridge.step() == Done(answered=1)
    assert bridge.step() == Done()
    told = list(client.labels())
    assert [(one["round"], one["label"], one["who"]) for one in told] == [(1, "dog", "local/label-studio-1")]


@pytest.mark.parametrize("restarted", [False, True])
def test_an_annotation_that_is_changed_after_it_was_told_becomes_a_correction_once(
    client, studio, person, bridge_of, restarted
):
    ask(client, 3)
    bridge = bridge_of(client, studio)
    bridge.step()
    first, second, third = studio.tasks.values()
    for task in (first, second, third):
        person.choose(task, "dog")
    assert bridge.step() == Done(answered=3)
    client.correct("dog", round=2)  # on the label page, where it stays as it is
    for task in (first, third):
        person.change(task, "cat")
    person.change(second, NONE)  # there is no such correction
    bridge = bridge_of(client, studio) if restarted else bridge
    assert bridge.step() == Done(corrected=1)
    assert bridge.step() == bridge_of(client, studio).step() == Done()
    told = [(one["label"], one["learned"], one["who"].partition("/")[2]) for one in client.labels()]
    signed = "label-studio-1"
    assert told == [("cat", "dog", signed), ("dog", "dog", signed), ("dog", "dog", "")]
    person.change(first, "dog")
    assert bridge.step() == Done(corrected=1)
    assert [one["label"] for one in client.labels()] == ["dog", "dog", "dog"]


def test_a_task_of_another_log_corrects_nothing(client, studio, person, bridge_of):
    ask(client, 1)
    bridge = bridge_of(client, studio)
    bridge.step()
    (task,) = studio.tasks.values()
    person.choose(task, "dog")
    bridge.step()
    task["data"][KEY] = "0@17"
    person.change(task, "cat")
    assert bridge.step() == Done()
    assert [one["answer"] for one in client.labels()] == ["label"]


def test_none_twice_and_none_lost_where_the_bridge_and_the_service_are_killed(tmp_path, studio):
    queries = 45
    with Served(linear_state(tmp_path / "state", sigma=1e9)) as service, Client(service.url) as client:
        ask(client, queries)
        chosen = answered_under_kills(service, studio.url, queries, 3)
        told = [(one["round"], one["label"]) for one in client.labels()]
        assert sorted(told) == sorted(chosen.items())
        assert client.status()["told"] == queries


def test_a_bridge_goes_on_when_label_studio_is_back(client, studio, person, bridge_of):
    ask(client, 2)
    bridge, said, waits = bridge_of(client, studio), [], []
    bridge.step()
    person.choose(studio.tasks[min(studio.tasks)], "cat")
    studio.down = True

    def wait(seconds):
        waits.append(seconds)
        studio.down = len(waits) < 3
        return len(waits) < 4

    run(bridge, wait, said.append, every=1.0)
    assert "does not respond" in said[0]
    assert said[1:] == ["0 tasks made, 1 answers told"]
    assert waits == [2.0, 4.0, 8.0, 1.0]
    assert client.status()["told"] == 1


def test_a_bridge_goes_on_when_the_service_is_back(tmp_path, studio, person, bridge_of):
    state = linear_state(tmp_path / "state", sigma=1e9)
    with Served(state) as service, Client(service.url) as client:
        ask(client, 2)
        bridge_of(client, studio).step()
        person.choose(studio.tasks[min(studio.tasks)], "cat")
        service.process.kill()
        service.process.wait()
        with pytest.raises(InputError, match="unreachable"):
            run(bridge_of(client, studio), lambda _: False, print, every=1.0, once=True)
    with ServedHere(state) as service, Client(service.url) as client:
        assert bridge_of(client, studio).step() == Done(answered=1)
        assert bridge_of(client, studio).step() == Done()


def test_a_query_that_ends_elsewhere_takes_its_task_away_and_a_late_annotation_changes_nothing(
    client, studio, person, bridge_of
):
    ask(client, 3)
    bridge = bridge_of(client, studio)
    bridge.step()
    first, second, third = studio.tasks.values()
    client.tell("cat", round=0)
    client.tell("cat", round=1)
    person.choose(second, "dog")
    assert bridge.step() == Done(removed=1)
    assert [task["id"] for task in studio.tasks.values()] == [second["id"], third["id"]]
    assert [one["label"] for one in client.labels()] == ["cat", "cat"]
    assert first["id"] not in studio.tasks


def test_a_second_task_of_one_query_is_removed(client, studio, person, bridge_of):
    ask(client, 2)
    bridge_of(client, studio).step()
    double = dict(studio.tasks[min(studio.tasks)]) | {"id": 9999, "annotations": []}
    studio.tasks[9999] = double
    assert bridge_of(client, studio).step() == Done(removed=1)
    assert 9999 not in studio.tasks


def test_none_of_these_ends_a_query_and_a_skipped_task_leaves_it_waiting(client, studio, person, bridge_of):
    ask(client, 2)
    bridge = bridge_of(client, studio)
    bridge.step()
    first, second = studio.tasks.values()
    person.choose(first, NONE)
    person.skip(second)
    assert bridge.step() == Done(answered=1)
    assert [(one["round"], one["answer"]) for one in client.labels()] == [(0, "none")]
    assert [query["round"] for query in client.queries()] == [1]


def test_a_new_start_finds_its_project_and_its_tasks(client, studio, bridge_of):
    ask(client, 2)
    bridge_of(client, studio).step()
    assert bridge_of(client, studio).step() == Done()
    assert len(studio.projects) == 1
    by_number = bridge_of(client, studio, project=str(studio.projects[0]["id"]))
    assert by_number.step() == Done()


def test_text_fields_image_sound_and_link_are_in_the_task(tmp_path, client, studio, bridge_of):
    pixels = {"height": 2, "width": 2, "channels": 3, "pixels": [0.0, 0.5, 1.0] * 4}
    wave = base64.b64encode(b"RIFF$\0\0\0WAVEfmt ").decode()
    ask(
        client,
        1,
        text="Hello,\nmy parcel is late.",
        fields={"received": "2026-05-06"},
        image={"base64": base64.b64encode(png(pixels)).decode()},
        audio={"base64": wave},
        link="https://example.org/?a=1&b=2",
    )
    ask(client, 1, start=1)  # without any of it, beside the other in one project
    assert bridge_of(client, studio).step() == Done(made=2)
    shown, bare = (task["data"] for task in studio.tasks.values())
    assert shown["sample"] == "Hello,\nmy parcel is late."
    assert shown["fields"] == {"received": "2026-05-06"}
    assert shown["values"]["x1"] == f"{row(0)[0]:g}"
    assert base64.b64decode(shown["image"].partition("base64,")[2]) == png(pixels)
    assert shown["audio"].startswith("data:audio/wav;base64,")
    assert 'href="https://example.org/?a=1&amp;b=2"' in shown["link"]
    assert bare["sample"] == "s1 (round 1)"
    assert bare["image"].startswith("data:image/png")
    assert bare["link"] == ""
    label_config = studio.projects[0]["label_config"]
    assert '<Collapse open="false"><Panel value="Values"><Table name="values"' in label_config


def test_tasks_carry_no_prediction_where_none_is_wanted(client, studio, bridge_of):
    ask(client, 1)
    assert bridge_of(client, studio, predictions=False).step() == Done(made=1)
    (task,) = studio.tasks.values()
    assert "predictions" not in task
    assert "Collapse" not in studio.projects[0]["label_config"]  # values are all that there is to see


def test_the_pixels_of_an_image_stream_become_a_png_that_is_large_enough_to_see(tmp_path, studio, bridge_of):
    pillow = pytest.importorskip("PIL.Image", reason="images are read by pillow")
    schema = Schema(title="Bars", image=Image(height=2, width=2), classes=[NamedClass(name="a"), NamedClass(name="b")])
    learner = osamd.OSAMD.from_source(np.eye(4), ["a", "b", "a", "b"], sigma=1e9)
    with ServedHere(create(tmp_path / "bars", learner, schema=schema)) as service, Client(service.url) as client:
        client.decide([0.0, 1.0, 0.5, 0.25])
        bridge_of(client, studio).step()
    data = next(iter(studio.tasks.values()))["data"]
    image = pillow.open(io.BytesIO(base64.b64decode(data["image"].partition("base64,")[2])))
    assert image.size == (256, 256)
    assert [image.getpixel(place) for place in ((0, 0), (255, 0), (0, 255), (255, 255))] == [0, 255, 128, 64]


def test_a_class_that_came_later_joins_the_configuration_and_hand_made_changes_stay():
    one = {"name": "cat", "title": "A cat", "about": ""}
    two = {"name": 7, "title": "Seven", "about": "More than <six>."}
    before = config({"classes": [one]}, ["fields"]).replace("<Text ", '<Header value="Look closely"/><Text ')
    kinds, after = kinds_in(before, {"classes": [one, two]})
    assert kinds == ["fields"]
    assert after is not None
    assert "Look closely" in after
    assert '<Choice value="Seven" alias="7" hint="More than &lt;six&gt;."' in after
    assert kinds_in(after, {"classes": [one, two]}) == (["fields"], None)


def test_a_project_that_is_not_for_queries_is_refused(client, studio, bridge_of):
    ask(client, 1)
    studio.projects.append({"id": 5, "title": "cats", "label_config": "<View><Text name='t' value='$t'/></View>"})
    with pytest.raises(InputError, match="must show"):
        bridge_of(client, studio, project="cats").step()
    assert not studio.tasks


def test_a_personal_access_token_is_exchanged_and_exchanged_again_when_it_lapses(client, studio):
    ask(client, 1)
    with LabelStudio(studio.url, PERSONAL) as by_personal:
        bridge = Bridge(client, by_personal)
        assert bridge.step() == Done(made=1)
        assert studio.access == 1
        studio.access = 7  # the short-lived token that was given out is worthless now
        assert bridge.step() == Done()
        assert studio.access == 8


def test_a_wrong_token_is_told_in_one_sentence(service, studio, capsys, monkeypatch):
    monkeypatch.delenv("LABEL_STUDIO_API_KEY", raising=False)
    command = ["label-studio", "--url", service.url, "--label-studio", studio.url, "--once"]
    assert main(command) == 2
    assert "LABEL_STUDIO_API_KEY" in capsys.readouterr().err
    assert main([*command, "--label-studio-token", "wrong"]) == 2
    said = capsys.readouterr().err
    assert "401 Invalid token" in said
    assert said.count("\n") == 1


def test_a_task_that_the_project_refuses_is_told_with_the_reason(studio):
    with LabelStudio(studio.url, TOKEN) as connected:
        connected.create_project(title="t", label_config='<View><Text name="sample" value="$sample"/></View>')
        with pytest.raises(LabelStudioError, match="key is expected in task data") as refused:
            connected.create_tasks(1, [{"data": {}}])
        assert not refused.value.passing


def test_a_webhook_wakes_the_bridge_whatever_it_says():
    wake = threading.Event()
    with listening("127.0.0.1:0", wake) as address:
        assert httpx.post(address, content=json.dumps({"action": "ANNOTATION_CREATED"})).status_code == 204
        assert wake.is_set()
    with pytest.raises(InputError, match="listen="), listening("nowhere", wake):
        pass


def test_the_command_looks_again_when_a_webhook_comes(service, client, studio, person, free_port):
    ask(client, 1)
    bridge = BridgeProcess(service.url, studio.url, "--every", "3600", "--listen", f"127.0.0.1:{free_port}")
    try:
        task = until(lambda: list(studio.tasks.values()), "the bridge makes the task")[0]
        assert task["data"][KEY].startswith("0@")
        person.choose(task, "cat")
        httpx.post(f"http://127.0.0.1:{free_port}/", json={"action": "ANNOTATION_CREATED"})
        until(lambda: client.status()["told"] == 1, "the answer is told")
    finally:
        bridge.end()


@pytest.fixture
def free_port():
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]
