"""The client in Python, against a service of its own."""

import datetime

import httpx
import numpy as np
import pytest
from engine_cases import linear_state, row
from http_cases import ServedHere

from osamd.client import Client, ServiceError, _number, _plain
from osamd.service import auth
from osamd.service.log import Log


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A service that asks for nearly every label."""
    with ServedHere(linear_state(tmp_path_factory.mktemp("client") / "state", sigma=1e6)) as served:
        yield served


@pytest.fixture
def service(served):
    with Client(served.url) as client:
        yield client


def asked(service, number=1):
    """The rounds of so many fresh queries."""
    found = []
    while len(found) < number:
        decision = service.decide(row(len(found)))
        if decision["query"]:
            found.append(decision["round"])
    return found


def test_a_sample_is_decided_and_told_by_its_id_and_sending_it_again_counts_nothing(service):
    first = service.decide({"x1": 1.0, "x2": 2, "x3": 0.5}, id="one")
    rounds = service.status()["rounds"]
    assert first["query"]
    assert set(first["probabilities"]) == {"cat", "dog"}
    assert service.decide([1.0, 2.0, 0.5], id="one") == first
    assert service.status()["rounds"] == rounds
    assert service.tell("dog", id="one") == {"round": first["round"], "label": "dog", "status": "learned"}
    assert service.tell("dog", round=first["round"])["status"] == "repeated"


def test_many_samples_and_many_labels_go_in_one_request_each(service):
    told = service.decide_many([row(1), row(2)], ids=["two", "three"])
    assert [one["id"] for one in told] == ["two", "three"]
    assert len(service.decide_many(np.array([row(3), row(4)]))) == 2
    assert service.decide_many([]) == service.tell_many([]) == []
    outcomes = service.tell_many([{"id": "two", "label": "cat"}, {"round": 10**6, "label": "cat"}])
    assert outcomes[0]["status"] == "learned"
    assert outcomes[1]["error"]["code"] == "unknown"
    with pytest.raises(ValueError, match="zip"):
        service.decide_many([row(1)], ids=["a", "b"])


def test_queries_are_claimed_skipped_expired_and_listed(service):
    service.expire_older(0)
    first, second, third = asked(service, 3)
    listed = [one["round"] for one in service.queries(limit=1000)]
    assert listed[-2:] == [second, third]
    (mine,) = service.claim("tab-1", order="valuable")
    assert service.claim("tab-1")[0]["round"] == mine["round"]
    with pytest.raises(ServiceError) as held:
        service.skip(mine["round"], "tab-2")
    assert (held.value.code, held.value.status) == ("held", 409)
    assert service.skip(mine["round"], "tab-1")["status"] == "skipped"
    assert service.expire(third)["status"] == "expired"
    assert service.expire(third)["status"] == "repeated"
    before = service.status()["pending"]
    assert service.expire_older(0) >= before - 1
    assert first not in [one["round"] for one in service.queries()]


def test_what_the_service_is_and_how_it_stood_can_be_read(service):
    assert [column["name"] for column in service.schema()["columns"]] == ["x1", "x2", "x3"]
    while service.status()["rounds"] < 200:
        service.decide_many([row(i) for i in range(50)])
    assert len(service.history(points=2)) <= 2
    assert service.history()[-1]["round"] % 100 == 0


def test_events_come_as_they_happen_and_go_on_behind_the_last_one_seen(service, served):
    events = service.events()
    kind, status = next(events)
    assert kind == "status"
    (number,) = asked(service)
    service.tell("cat", round=number)
    seen = {}
    while "label" not in seen:
        kind, body = next(events)
        if body.get("round") == number:
            seen[kind] = body
    events.close()
    assert seen["label"]["label"] == "cat"
    again = service.events(after=status["seq"])
    kinds = []
    while "label" not in kinds:
        kinds.append(next(again)[0])
    again.close()
    assert "query" in kinds


def test_a_refusal_has_a_stable_code_and_the_place(service):
    with pytest.raises(ServiceError, match=r"^invalid: .* 'x2' is 'two'") as refused:
        service.decide({"x1": 1.0, "x2": "two", "x3": 0.0})
    assert (refused.value.status, refused.value.code, refused.value.where) == (422, "invalid", "body.features")
    with pytest.raises(ServiceError, match=r"^no-such-class: .* give one of 'cat', 'dog'"):
        service.tell("owl", round=0)


def test_a_token_is_sent_and_a_wrong_one_is_refused(tmp_path):
    state = linear_state(tmp_path / "state")
    log = Log(state.log_file)
    log.make_tables()
    token = auth.make_token(log, "till", "client")
    log.close()
    with ServedHere(state) as served:
        with Client(served.url, token=token) as service:
            assert service.decide(row(1))["round"] == 0
            with pytest.raises(ServiceError, match="forbidden"):
                service.queries()
            with pytest.raises(ServiceError, match="forbidden"):
                next(service.events())
        for wrong in (None, "osamd_no"):
            with Client(served.url, token=wrong) as service, pytest.raises(ServiceError, match="unauthorised"):
                service.status()
    with Client(served.url, token=token) as service:  # it has ended
        for call in (service.status, lambda: next(service.events())):
            with pytest.raises(ServiceError, match="is `osamd serve` running there") as gone:
                call()
            assert (gone.value.code, gone.value.status) == ("unreachable", 0)


def test_an_answer_that_is_not_the_services_is_told_as_such():
    client = Client("http://127.0.0.1:9")
    client._http.close()
    client._http = httpx.Client(
        base_url="http://127.0.0.1:9", transport=httpx.MockTransport(lambda _: httpx.Response(502, text="<html>"))
    )
    with client, pytest.raises(ServiceError, match="is the address right") as strange:
        client.status()
    assert (strange.value.code, strange.value.status) == ("no-service", 502)


def test_rows_of_numpy_and_pandas_become_json_with_null_where_a_value_is_missing():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {
            "age": [41.0, None],
            "owner": pandas.array([True, None], dtype="boolean"),
            "job": ["nurse", None],
            "at": pandas.to_datetime(["2024-03-01 10:00", None]),
        }
    )
    first, second = (_plain(one) for _, one in frame.iterrows())
    assert first == {"age": 41.0, "owner": True, "job": "nurse", "at": "2024-03-01T10:00:00"}
    assert second["age"] is second["owner"] is second["at"] is None
    assert _plain(np.array([1.0, np.nan])) == [1.0, None]
    assert _plain([np.float32(0.5), np.int64(3), np.bool_(True), "a", None]) == [0.5, 3, True, "a", None]
    assert _plain(np.arange(4.0).reshape(1, 2, 2)) == [0.0, 1.0, 2.0, 3.0]
    assert _plain({"x": float("nan"), 3: 1}) == {"x": None, "3": 1}
    assert _number(datetime.date(2024, 3, 1)) == "2024-03-01"
