"""Raw data: found where the user says, downloaded once and resumed, and refused in a sentence unless it is known."""

import gzip
import io
import os
import sys
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from osamd.errors import InputError
from osamd.streams import downloads as data
from osamd.streams.downloads import RawFile, cached, data_folder, resume, sha256

CONTENT = np.random.default_rng(0).bytes(300_000)


class Server:
    """Files on the loopback; it keeps what was asked for, with or without knowing ranges."""

    def __init__(self, ranges):
        self.files, self.ranges, self.asked, self.breaks_after = {}, ranges, [], None
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                outer.asked.append(self.headers.get("Range"))
                content = outer.files.get(self.path)
                if content is None:
                    self.send_error(404)
                    return
                start = 0
                if outer.ranges and self.headers.get("Range"):
                    start = int(self.headers["Range"].removeprefix("bytes=").removesuffix("-"))
                    if start >= len(content):
                        self.send_response(416)
                        self.send_header("Content-Range", f"bytes */{len(content)}")
                        self.send_header("Content-Length", "0")
                        self.end_headers()
                        return
                    self.send_response(206)
                    self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
                else:
                    self.send_response(200)
                self.send_header("Content-Length", str(len(content) - start))
                self.end_headers()
                self.wfile.write(content[start : outer.breaks_after])

            def log_message(self, *_):
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.01}).start()


@pytest.fixture(params=[True, False], ids=["ranges", "no-ranges"])
def server(request, monkeypatch):
    monkeypatch.setenv("no_proxy", "*")
    made = Server(request.param)
    made.files["/file"] = CONTENT
    yield made
    made.http.shutdown()
    made.http.server_close()


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.delenv(data.VARIABLE, raising=False)
    monkeypatch.setattr(data, "user_cache", lambda: tmp_path / "cache")
    return tmp_path / "cache"


@pytest.mark.parametrize("left", [0, 1, 120_000, 299_999])
def test_a_download_goes_on_from_what_is_there(server, tmp_path, left):
    part = tmp_path / "file.part"
    if left:
        part.write_bytes(CONTENT[:left])
    resume(f"{server.url}/file", part)
    assert part.read_bytes() == CONTENT
    assert server.asked == [f"bytes={left}-" if left else None]


def test_a_whole_part_is_kept_and_one_that_is_too_long_begins_again(server, tmp_path):
    part = tmp_path / "file.part"
    for content in (CONTENT, CONTENT + b"more"):
        part.write_bytes(content)
        resume(f"{server.url}/file", part)
        assert part.read_bytes() == CONTENT


def test_a_broken_download_says_so_and_the_next_one_finishes_it(server, cache):
    pytest.importorskip("pooch", reason="downloads need pooch")
    raw = RawFile("set/file", f"{server.url}/file", sha256(CONTENT))
    server.breaks_after = 200_000
    with pytest.raises(
        InputError, match=r"`made\(\)`: cannot download .* broke after 200000 of 300000 .* run it again"
    ):
        data_folder("made").read(raw)
    assert (cache / "set/file.part").stat().st_size == 200_000
    server.breaks_after = None
    assert data_folder("made").read(raw) == CONTENT
    assert server.asked == [None, "bytes=200000-"]
    assert os.listdir(cache / "set") == ["file"]
    assert data_folder("made").read(raw) == CONTENT
    assert len(server.asked) == 2  # what is there is not fetched again


def test_a_damaged_file_in_the_cache_is_fetched_again(server, cache):
    pytest.importorskip("pooch", reason="downloads need pooch")
    (cache / "set").mkdir(parents=True)
    (cache / "set/file").write_bytes(CONTENT[:-1])
    assert data_folder("made").read(RawFile("set/file", f"{server.url}/file", sha256(CONTENT))) == CONTENT


def test_a_file_inside_a_zip_is_taken_out_of_it(server, cache):
    pytest.importorskip("pooch", reason="downloads need pooch")
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("inner.gz", gzip.compress(b"1,2\n"))
    server.files["/set.zip"] = packed.getvalue()
    raw = RawFile("set/inner.gz", f"{server.url}/set.zip", member="inner.gz")
    for _ in range(2):
        assert data.gunzip(data_folder("made").read(raw)) == b"1,2\n"
    assert os.listdir(cache / "set") == ["inner.gz"]
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    ("path", "member", "sentence"),
    [
        ("/file", None, "is damaged or of another edition; try again later, or put the file into a folder as set/x"),
        ("/file", "inner", "is damaged or of another edition"),
        ("/none", None, r"cannot download .*/none .*\(Not Found\)"),
    ],
)
def test_what_the_home_sends_wrongly_is_refused_in_a_sentence(server, cache, path, member, sentence):
    pytest.importorskip("pooch", reason="downloads need pooch")
    with pytest.raises(InputError, match=sentence):
        data_folder("made").read(RawFile("set/x", server.url + path, None if member else sha256(b""), member))
    assert not os.listdir(cache / "set")


def test_without_a_network_the_sentence_says_how_to_do_without(cache, monkeypatch):
    pytest.importorskip("pooch", reason="downloads need pooch")
    monkeypatch.setenv("no_proxy", "*")
    with pytest.raises(InputError, match=r"cannot download http://127.0.0.1:9/x .* data_dir or OSAMD_DATA_DIR"):
        data_folder("made").read(RawFile("set/x", "http://127.0.0.1:9/x"))


def test_the_argument_comes_before_the_variable_and_that_before_a_download(tmp_path, cache, monkeypatch):
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    assert data_folder("made").path == cache
    monkeypatch.setenv(data.VARIABLE, str(second))
    assert data_folder("made").path == second
    assert data_folder("made", first).path == first


def test_without_pooch_the_sentence_says_what_to_install(monkeypatch, cache):
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(InputError, match=r"`made\(\)`: downloading needs pooch; run pip install 'osamd\[deep\]'"):
        data_folder("made").read(RawFile("a/file", "http://localhost/file", "0" * 64))


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ("nowhere", r"`made\(data_dir='nowhere'\)`: there is no such folder; name one that holds the folders mnist"),
        ("", "data_dir must be the path of a folder"),
        (3, r"`made\(data_dir=3\)`: data_dir must be the path of a folder"),
    ],
)
def test_a_bad_folder_is_refused_in_a_sentence(given, sentence):
    with pytest.raises(InputError, match=sentence):
        data_folder("made", given)


def test_a_missing_or_damaged_or_unreadable_file_is_refused_in_a_sentence(tmp_path):
    raw = RawFile("set/file", "https://example.org/file", sha256(CONTENT))
    with pytest.raises(InputError, match=r"set/file is missing; get it from https://example.org/file and put it there"):
        data_folder("made", tmp_path).read(raw)
    (tmp_path / "set").mkdir()
    (tmp_path / "set/file").write_bytes(CONTENT[1:])
    with pytest.raises(InputError, match=r"set/file is damaged or of another edition; delete it and get it again from"):
        data_folder("made", tmp_path).read(raw)
    (tmp_path / "set/file").unlink()
    (tmp_path / "set/file").mkdir()
    with pytest.raises(InputError, match=r"cannot read .*set/file"):
        data_folder("made", tmp_path).read(raw)


@pytest.mark.parametrize(
    "content",
    [b"", b"no gzip", gzip.compress(CONTENT)[:-9], gzip.compress(CONTENT)[:50]],
    ids=["empty", "other", "short", "shorter"],
)
def test_a_damaged_gzip_gives_nothing(content):
    assert data.gunzip(content) in (None, b"")


def test_arrays_are_made_once_and_again_where_the_cache_is_damaged(cache):
    made = []

    def make():
        made.append(1)
        return {"a": np.arange(1000, dtype=np.int16)}

    for _ in range(2):
        assert cached("key", make)["a"].dtype == np.int16
    assert len(made) == 1
    path = cache / "prepared/key.npz"
    for damaged in (
        path.read_bytes()[:-40],
        b"",
        b"PK",
        path.read_bytes().replace(b"\x07\x00\x08\x00", b"\x07\x01\x08\x00"),
    ):
        path.write_bytes(damaged)
        np.testing.assert_array_equal(cached("key", make)["a"], np.arange(1000))
    assert len(made) == 5
    assert os.listdir(path.parent) == ["key.npz"]


def test_a_cache_that_cannot_be_written_costs_nothing_but_time(tmp_path, monkeypatch):
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setattr(data, "user_cache", lambda: tmp_path / "file")
    assert cached("key", lambda: {"a": np.arange(3)})["a"].tolist() == [0, 1, 2]
