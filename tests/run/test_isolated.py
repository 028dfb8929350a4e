"""A process of its own: it may die, hang or take all memory, and says so in a sentence."""

import os
import pickle
import signal
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from likewise.errors import InvalidFile, InvalidModel
from likewise.run import isolated
from likewise.run.isolated import IsolatedProcess

TARGET = """
import ctypes, os, signal, sys, threading, time
import numpy as np
from likewise.errors import Untrustworthy

def open_file(content, **about):
    misbehave(content.decode())
    return ({"pid": os.getpid(), **about}, [np.arange(3.0), np.array([True])]), answer

def answer(about, arrays):
    misbehave(about.get("do", ""))
    return arrays[0] * 2

def misbehave(how):
    if how == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
        time.sleep(60)  # it may take a moment
    if how == "leave":
        os._exit(0)
    if how == "exit":
        sys.exit(0)
    if how == "hang":
        time.sleep(60)
    if how == "hang with the lock":  # a library in C++ that never lets Python go on
        ctypes.PyDLL(None).sleep(60)
    if how == "grow":
        np.ones(2**33)
    if how == "refuse":
        raise Untrustworthy("No, thank you.")
    if how == "fail":
        raise KeyError("allocation")
    if how == "slow":
        time.sleep(0.3)
"""


@pytest.fixture
def start(tmp_path, monkeypatch):
    """Return what starts a process that behaves as it is told."""
    (tmp_path / "misbehaving.py").write_text(TARGET)
    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("PYTHONPATH", path)

    def begin(how="", **about):
        return IsolatedProcess("misbehaving:open_file", how.encode(), "m.bin", about)

    return begin


def test_what_was_opened_and_answered_comes_back(start):
    process = start(a=[1, "ü\ud800"])
    about, (numbers, truths) = process.open()
    assert about["a"] == [1, "ü\ud800"]
    assert about["pid"] != os.getpid()
    assert numbers.tolist() == [0, 1, 2]
    assert truths.tolist() == [True]
    x = np.random.default_rng(0).normal(size=(1000, 7))
    assert np.array_equal(process.ask({}, [x.T.copy().T], 1000), 2 * x)
    assert process.ask({}, [np.empty((0, 3))], 0).shape == (0, 3)


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("crash", r"'m\.bin' brings down the library that reads it \(SIGSEGV\)"),
        ("leave", r"'m\.bin' brings down the library that reads it \(exit code 0\)"),
        ("hang", r"'m\.bin' takes more than 2 seconds to (open|answer)\. .* --trust"),
        ("hang with the lock", r"'m\.bin' takes more than 2 seconds"),
        ("grow", r"'m\.bin' takes more than \d\.\d GB of memory to (open|answer)\. .* --trust"),
    ],
)
@pytest.mark.parametrize("when", ["open", "ask"])
def test_a_process_that_dies_hangs_or_grows_is_a_sentence(
    start, ended, monkeypatch, how, words, when
):
    process = start(how if when == "open" else "")
    if when == "ask":
        pid = process.open()[0]["pid"]
    if how.startswith("hang"):
        monkeypatch.setattr(isolated, "SECONDS", 2.0)
    for _ in range(2):  # and the second time at once
        with pytest.raises(InvalidFile, match=words) as caught:
            process.ask({"do": how}, [np.ones(1)], 1)
        assert caught.value.exit_code == 2
    assert when == "open" or ended(pid)


@pytest.mark.parametrize(("when", "kind"), [("open", InvalidFile), ("ask", InvalidModel)])
def test_what_is_raised_there_is_a_sentence_here(start, when, kind):
    for how in ("refuse", "fail", "exit"):
        process = start(how if when == "open" else "")
        with pytest.raises(kind, match=r"No, thank you|KeyError: 'allocation'|SystemExit: 0"):
            process.ask({"do": how}, [np.ones(1)], 1)
        if when == "ask":
            assert process.ask({}, [np.ones(1)], 1) == [2.0]


def test_an_answer_of_other_rows_than_asked_is_refused(start):
    with pytest.raises(InvalidModel, match="does not give 3 answers for 3 rows"):
        start().ask({}, [np.ones(2)], 3)


def test_everyone_who_waits_hears_the_same_reason(start, monkeypatch):
    monkeypatch.setattr(isolated, "processors", lambda: 4)
    process = start()
    process.open()
    monkeypatch.setattr(isolated, "SECONDS", 2.0)
    said = []

    def ask():
        try:
            process.ask({"do": "hang"}, [np.ones(1)], 1)
        except InvalidFile as error:
            said.append(str(error))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: ask(), range(4)))
    assert len(said) == 4
    assert len(set(said)) == 1
    assert "more than 2 seconds" in said[0]


def test_questions_of_several_threads_are_answered_at_the_same_time(start, monkeypatch):
    monkeypatch.setattr(isolated, "processors", lambda: 4)
    process = start()
    process.open()
    began = time.monotonic()
    with ThreadPoolExecutor(4) as pool:
        asked = [np.full(50, k) for k in range(8)]
        found = list(pool.map(lambda x: process.ask({"do": "slow"}, [x], 50), asked))
    assert time.monotonic() - began < 8 * 0.3
    assert all(np.array_equal(a, 2 * x) for a, x in zip(found, asked, strict=True))


def test_one_that_was_interrupted_starts_again(start, ended, monkeypatch):
    process = start()
    first = process.open()[0]["pid"]

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(isolated._Channel, "receive", interrupt)
    with pytest.raises(KeyboardInterrupt):
        process.ask({}, [np.ones(1)], 1)
    monkeypatch.undo()
    assert ended(first)


def test_it_travels_and_ends_with_its_owner(start, ended):
    process = pickle.loads(pickle.dumps(start(a=1)))
    about, _ = process.open()
    assert about["a"] == 1
    os.kill(about["pid"], 0)  # it is there
    del process
    assert ended(about["pid"])


@pytest.mark.parametrize("how", ["", "hang with the lock"])
def test_it_ends_with_a_killed_parent_whatever_it_does(start, ended, how):
    code = f"""
        import threading, time
        import numpy as np
        from likewise.run.isolated import IsolatedProcess
        process = IsolatedProcess("misbehaving:open_file", b"", "m.bin", {{}})
        print(process.open()[0]["pid"], flush=True)
        process.ask({{"do": {how!r}}}, [np.ones(1)], 1)
        time.sleep(60)
    """
    parent = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, text=True
    )
    pid = int(parent.stdout.readline())
    time.sleep(0.5)
    os.kill(pid, 0)  # it is there
    parent.send_signal(signal.SIGKILL)
    parent.communicate()
    assert ended(pid)


def test_a_fork_starts_a_process_of_its_own(start):
    process = start()
    first = process.open()[0]["pid"]
    own, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(theirs, b"%d" % (process.open()[0]["pid"] != first))
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(own, 1) == b"1"
    assert process.ask({}, [np.ones(1)], 1) == [2.0]
