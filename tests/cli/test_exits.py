"""Exit codes are honest: whatever a model does to the process, it is no verdict."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

HARNESS = """
import ctypes, errno, multiprocessing, os, resource, signal, subprocess, sys, threading, time
import likewise.cli
from likewise.__main__ import main
from likewise.cli.exits import guarded
from likewise.errors import InvalidData

def command():
    {code}

def run():
    import typer
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(guarded(command))
    app(args=[])

likewise.cli.main = run
{before}
main()
"""


def heed():
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def start(code, before="", preexec_fn=heed):
    """Start likewise with one command, which does what ``code`` says."""
    code = textwrap.indent(textwrap.dedent(code), "    ").strip()
    script = HARNESS.format(before=before, code=code)
    return subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # In the background of a shell SIGINT is ignored, and below nohup SIGHUP.
        preexec_fn=preexec_fn,
    )


def result(process):
    said, errors = process.communicate(timeout=60)
    assert "Traceback" not in errors
    return process.returncode, said, errors.strip()


FULL = "resource.setrlimit(resource.RLIMIT_NOFILE, (20, 20)); [open(os.devnull) for _ in 'x' * 20]"


@pytest.mark.parametrize(
    ("code", "exit_code", "words"),
    [
        ("pass", 0, ""),
        ("raise typer.Exit(1)", 1, ""),
        ("raise InvalidData('No rows.')", 2, "Error: No rows."),
        ("sys.exit(0)", 2, r"called sys.exit(0)"),
        ("sys.exit('bye')", 2, r"called sys.exit('bye')"),
        ("os._exit(0)", 2, "ended the process before there was a result (with code 0)"),
        ("os._exit(1)", 2, "ended the process before there was a result (with code 1)"),
        ("ctypes.CDLL(None).exit(1)", 2, "(with code 1)"),
        ("os.abort()", 2, "(by SIGABRT)"),
        ("ctypes.string_at(0)", 2, "(by SIGSEGV)"),
        ("os.kill(os.getpid(), signal.SIGKILL)", 2, "(by SIGKILL, perhaps for want of memory)"),
        ("raise MemoryError", 2, "Error: There is not enough memory."),
        (FULL, 2, "no more open files here (ulimit -n)"),
        ("raise OSError(errno.EAGAIN, 'many')", 2, "no more processes"),
        ("raise ZeroDivisionError", 4, "Internal error: ZeroDivisionError"),
        ("os.fork() or sys.exit(0); os.wait(); raise typer.Exit(1)", 1, ""),
        ("os.fork() or os._exit(0); os.wait(); raise typer.Exit(1)", 1, ""),
        ("os.fork() or time.sleep(3); os._exit(0)", 2, "(with code 0)"),
        ("threading.Thread(target=sys.exit).start(); time.sleep(.2)", 0, ""),
    ],
)
def test_only_a_verdict_has_the_code_of_a_verdict(code, exit_code, words):
    code = f"import typer\n{code}"
    found, _, errors = result(start(code))
    assert found == exit_code, errors
    assert words in errors
    assert len(errors.splitlines()) <= 1


WAITS = """
    try:
        print(os.getpid(), flush=True)
        time.sleep(60)
    finally:
        time.sleep(.3)
        print('tidied up', flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("group", [True, False])
def test_who_is_asked_to_stop_tidies_up_and_says_so(number, group):
    process = start(WAITS)
    assert process.stdout.readline()
    # A terminal sends it to everybody at once; other programs to the one they know.
    (os.killpg if group else os.kill)(process.pid, number)
    found, said, errors = result(process)
    assert found == 128 + number
    assert said == "tidied up\n"
    assert errors == ("Interrupted." if number == signal.SIGINT else "Terminated.")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("moment", [0.01, 0.1, 0.5])
def test_a_signal_at_any_moment_of_the_start_is_no_traceback(number, moment):
    process = start("import pyarrow, scipy.stats", before="print('ready', flush=True)")
    assert process.stdout.readline()
    time.sleep(moment)
    process.send_signal(number)
    found, _, errors = result(process)
    assert found in (0, 128 + number)
    assert errors in ("", "Interrupted.", "Terminated.")


def test_a_signal_in_a_destructor_is_not_lost():
    code = """
        class Slow:
            def __del__(self):
                print('ready', flush=True)
                time.sleep(60)
        Slow()
        time.sleep(60)
    """
    process = start(code)
    assert process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    found, _, errors = result(process)
    assert (found, errors) == (128 + signal.SIGTERM, "Terminated.")


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs /proc")
@pytest.mark.parametrize("code", ["time.sleep(60)", "ctypes.PyDLL(None).sleep(60)"])
def test_a_kill_leaves_nobody_behind(code, ended):
    process = start(f"print(os.getpid(), flush=True); {code}")
    pid = int(process.stdout.readline())
    assert pid != process.pid
    assert not ended(pid, seconds=0)
    process.kill()
    process.communicate()
    assert ended(pid, seconds=4)


def test_an_ignored_interrupt_stays_ignored():
    def ignore():
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    code = "print('ready', flush=True); time.sleep(1); print('done')"
    process = start(code, preexec_fn=ignore)
    assert process.stdout.readline() == "ready\n"
    os.killpg(process.pid, signal.SIGINT)
    assert result(process) == (0, "done\n", "")
