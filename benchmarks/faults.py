"""Whatever happens to an audit, it ends as if nothing had happened, or in a sentence.

python benchmarks/faults.py [--kills 100] [--without-ray | --ray-alone 5 | --two-alone 20]

A small audit that keeps its finished blocks in a folder is killed (SIGKILL) at random moments and
resumed until it completes: as one process, with two processes, and on Ray, where workers are killed
too. Then its pieces are damaged or swapped, its data changed while it runs, its disk filled, its
folder shared with a second audit. Every completed audit must have the record and the rows of one
that nothing happened to; every other one must end in a `LikewiseError`, and complete once the cause
is gone.
"""

import argparse
import dataclasses
import json
import multiprocessing
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from sklearn.linear_model import LogisticRegression

import likewise
from likewise.engine import plan
from likewise.engine.audit_result import AuditResult
from likewise.errors import LikewiseError
from likewise.settings import Settings

PEOPLE, BLOCK = 3000, 128
WHEN = ("created", "seconds", "command", "warnings")
REFUSED = 2


@dataclasses.dataclass(frozen=True)
class World:
    """A model, people in four files, and where the results of an undisturbed audit are."""

    folder: Path

    @property
    def files(self) -> list[str]:
        """The people."""
        return sorted(map(str, self.folder.glob("part-*.parquet")))

    def audit(self, run: likewise.Inline | Any, store: Path, **how: Any) -> AuditResult:
        """Audit the people, resuming what is there."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return likewise.audit(
                str(self.folder / "model.safetensors"),
                self.files,
                metric=likewise.ignoring([[1.0, 0.5, 0.0, 0.0]]),
                settings=Settings(checks="core").changed(
                    columns__label="y",
                    columns__protected=("group",),
                    map__solver="exponential4",
                    map__steps=8,
                ),
                run=run,
                store=likewise.Folder(store, resume=(store / "identity.json").exists()),
                **how,
            )


def make_world(folder: Path) -> World:
    """Write a model and people."""
    rng = np.random.default_rng(11)
    group = rng.choice(["red", "green", "blue"], PEOPLE)
    x = rng.normal(size=(PEOPLE, 4)) + np.outer(group == "red", [1.0, 0.5, 0, 0])
    y = (x @ [1.0, 1.0, 0.5, 0.0] + 0.7 * rng.normal(size=PEOPLE) > 0).astype(int)
    likewise.save_model(LogisticRegression().fit(x, y), folder / "model.safetensors")
    table = pa.table({**dict(zip("abcd", x.T, strict=True)), "group": group, "y": y})
    for k, rows in enumerate(np.array_split(np.arange(PEOPLE), 4)):
        pq.write_table(table.take(pa.array(rows)), folder / f"part-{k}.parquet", row_group_size=501)
    return World(folder)


def content(result: AuditResult) -> tuple[str, pa.Table]:
    """Return all that an audit found, but for when it was."""
    record = json.loads(result.to_json())
    return json.dumps(
        {k: v for k, v in record.items() if k not in WHEN}
    ), result.outcomes.to_arrow()


def apart(work: Callable[[], object]) -> int:
    """Do something in a process that is forked from this one, with all libraries loaded."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        os.setsid()  # its own group: workers are killed with it
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 2)
        work()
        code = 0
    except LikewiseError:
        code = REFUSED
    finally:
        os._exit(code)


def ended(pid: int, within: float = 300.0) -> int:
    """Wait for a process; return its exit code, or minus the signal that ended it."""
    end = time.monotonic() + within
    while time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    raise TimeoutError(f"an audit did not end within {within:.0f} seconds")


class Same:
    """Tells whether an audit found what the undisturbed one did, and counts."""

    def __init__(self, world: World, place: Path) -> None:
        began = time.monotonic()
        self.expected = content(world.audit(likewise.Inline(), place))
        self.seconds = time.monotonic() - began
        self.completed = 0

    def check(self, result: AuditResult) -> None:
        """Compare; anything but the same ends the benchmark."""
        assert content(result) == self.expected, "an audit that was resumed found something else"
        self.completed += 1


def kill_main(world: World, same: Same, place: Path, run: Any, times: int, seed: str) -> int:
    """Kill the whole audit at random moments until it has been killed so often; then complete."""
    moments, kills, began = random.Random(seed), 0, time.monotonic()
    same.check(world.audit(run, place))
    seconds = time.monotonic() - began  # workers take their time to begin
    while kills < times:
        pid = apart(lambda: same.check(world.audit(run, place)))
        end = time.monotonic() + moments.uniform(0, seconds)
        while (
            time.monotonic() < end
            and os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
        ):
            time.sleep(0.002)
        with_workers = moments.random() < 0.5
        try:
            os.killpg(pid, signal.SIGKILL) if with_workers else os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            os.kill(pid, signal.SIGKILL)
        code = ended(pid)
        assert code in (0, -signal.SIGKILL), f"exit code {code} of an audit that was killed"
        kills += code == -signal.SIGKILL
        if code == 0:  # it was quicker; the next one begins anew
            same.completed += 1
    same.check(world.audit(likewise.Inline(), place))
    return kills


def kill_workers(world: World, same: Same, place: Path, run: Any, times: int) -> int:
    """Kill a worker after every other finished block; others take its place."""
    kills = 0
    while kills < times:
        last = [0]

        def progress(what: str, done: int, total: int, last: list[int] = last) -> None:
            nonlocal kills
            due = kills < times and last[0] + 2 * BLOCK < done < total
            if what == "moving people" and due:
                last[0] = done
                if victims := workers_of(os.getpid()):
                    os.kill(victims[kills % len(victims)], signal.SIGKILL)
                    kills += 1

        same.check(world.audit(run, place, progress=progress))
    return kills


def workers_of(pid: int) -> list[int]:
    """Return the processes that move people: those of a pool, or Ray's actors."""
    found = [child.pid for child in multiprocessing.active_children() if child.pid is not None]
    if found:
        return found
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and pid in ancestors(int(folder.name)):
            try:
                words = (folder / "cmdline").read_bytes()
            except OSError:
                continue
            if words.startswith(b"ray::_Actor"):
                found.append(int(folder.name))
    return sorted(found)


def ancestors(pid: int) -> Iterator[int]:
    """Return the parents of a process."""
    while pid > 1:
        try:
            stat = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            return
        pid = int(stat.rpartition(")")[2].split()[1])
        yield pid


class Stop(Exception):
    """Stops an audit that is to be resumed."""


def stopped(world: World, place: Path, share: float = 0.8) -> None:
    """Begin an audit, and stop it when so many people are done."""

    def progress(what: str, done: int, total: int) -> None:
        if what == "moving people" and done >= share * total:
            raise Stop

    try:
        world.audit(likewise.Inline(), place, progress=progress)
    except Stop:
        return
    raise AssertionError("the audit was not stopped")


def damage(moments: random.Random, place: Path, other: Path) -> str:
    """Damage one or two pieces; ``other`` holds those of another audit."""
    pieces = sorted(place.glob("part-*.done"))
    one, two = moments.sample(pieces, 2)
    kind = moments.choice(["swap", "copy", "cut", "flip", "empty", "foreign", "gone", "renamed"])
    body = bytearray(one.read_bytes())
    if kind == "swap":
        swapped = two.read_bytes()
        two.write_bytes(body)
        one.write_bytes(swapped)
    elif kind == "copy":
        two.write_bytes(body)
    elif kind == "cut":
        one.write_bytes(body[: moments.randrange(1, len(body))])
    elif kind == "flip":
        body[moments.randrange(len(body))] ^= 1 << moments.randrange(8)
        one.write_bytes(body)
    elif kind == "empty":
        one.write_bytes(b"")
    elif kind == "foreign":
        one.write_bytes((other / one.name).read_bytes())
    elif kind == "gone":
        one.unlink()
    else:
        one.rename(place / "part-0000000100-0000000101.done")
    return kind


def damaged(world: World, same: Same, place: Path, times: int, seed: str) -> dict[str, int]:
    """Damage pieces of a stopped audit, and resume it; so often."""
    moments, kinds = random.Random(seed), {}
    saved, other = place.with_name("saved"), place.with_name("foreign")
    stopped(world, saved)
    shutil.copytree(saved, other)
    for piece in other.glob("part-*.done"):  # as another audit would have written it
        header, _, rest = piece.read_bytes().partition(b"\n")
        words = json.loads(header) | {"audit": "0" * 64}
        piece.write_bytes(json.dumps(words).encode() + b"\n" + rest)
    for _ in range(times):
        shutil.copytree(saved, place)
        kind = damage(moments, place, other)
        kinds[kind] = kinds.get(kind, 0) + 1
        same.check(world.audit(likewise.Inline(), place))
    return kinds


def _label(table: pa.Table, row: int, value: int) -> pa.Table:
    y = table["y"].to_pylist()
    y[row] = value if value > 1 else 1 - y[row]
    return table.set_column(table.column_names.index("y"), "y", pa.array(y))


def _level(table: pa.Table, row: int) -> pa.Table:
    group = table["group"].to_pylist()
    group[row] = "violet"
    return table.set_column(table.column_names.index("group"), "group", pa.array(group))


CHANGES: dict[str, Callable[[pa.Table], pa.Table]] = {
    "a label flipped": lambda table: _label(table, 700, 0),
    "a label that was not there": lambda table: _label(table, 700, 7),
    "a level that was not there": lambda table: _level(table, 700),
    "a row less": lambda table: table.slice(1),
    "two rows exchanged": lambda table: table.take(
        pa.array([1, 0, *range(2, len(table))], pa.int64())
    ),
}


def changed(world: World, same: Same, place: Path) -> int:
    """Change the last file while the first people are moved; then put it right, and resume."""
    last = Path(world.files[-1])
    good = last.read_bytes()
    for name, change in CHANGES.items():
        done = []

        def progress(
            what: str, count: int, total: int, change: Any = change, done: list[int] = done
        ) -> None:
            if what == "moving people" and not done:
                done.append(count)
                pq.write_table(change(pq.read_table(last)), last, row_group_size=501)

        try:
            world.audit(likewise.Inline(), place, progress=progress)
        except LikewiseError as error:
            print(f"  {name}: {str(error)[:100]}")
        else:
            raise AssertionError(f"{name}, while the audit ran: nobody noticed")
        last.write_bytes(good)
        same.check(world.audit(likewise.Inline(), place))
    return len(CHANGES)


def full_disk(world: World, same: Same, place: Path) -> int:
    """Let files grow to so many bytes only; then make room, and resume."""
    limits = (500, 5_000, 15_000)
    for most in limits:

        def work(most: int = most) -> None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
            world.audit(likewise.Inline(), place, outcomes=place.with_name("rows.parquet"))

        code = ended(apart(work))
        assert code == REFUSED, f"exit code {code} on a full disk"
        same.check(world.audit(likewise.Inline(), place))
    return len(limits)


def two_audits(world: World, same: Same, place: Path) -> int:
    """Begin a second audit while the first one holds the folder."""
    stopped(world, place, 0.3)
    begun, go_on = multiprocessing.Pipe()

    def first() -> None:
        def progress(what: str, done: int, total: int) -> None:
            if what == "moving people" and done < total and not told:
                told.append(done)
                go_on.send(done)
                go_on.recv()

        told: list[int] = []
        same.check(world.audit(likewise.Inline(), place, progress=progress))

    pid = apart(first)
    begun.recv()
    try:
        world.audit(likewise.Inline(), place)
    except LikewiseError as error:
        print(f"  second audit: {str(error)[:100]}")
    else:
        raise AssertionError("two audits shared a folder")
    begun.send(0)
    assert ended(pid) == 0
    same.completed += 1
    return 1


def main() -> None:
    """Let everything happen, and say what became of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", default="0")
    parser.add_argument("--without-ray", action="store_true")
    parser.add_argument("--ray-alone", type=int, default=0, help="only kill so many Ray actors")
    parser.add_argument("--two-alone", type=int, default=0, help="only so many, two processes")
    asked = parser.parse_args()
    plan.block_size = lambda d: BLOCK  # type: ignore[attr-defined, assignment]
    some = max(1, asked.kills // 20)
    share = 0 if asked.without_ray else some
    with tempfile.TemporaryDirectory(prefix="likewise-faults-") as name:
        folder = Path(name)
        (folder / "world").mkdir()
        world, place = make_world(folder / "world"), folder / "store"
        same = Same(world, place)
        print(f"an audit of {PEOPLE} people in {PEOPLE // BLOCK + 1} blocks: {same.seconds:.1f} s")

        def say(what: str, count: int) -> None:
            print(f"{what:<46}{count:>6}{same.completed:>8} identical", flush=True)

        ray = likewise.Ray("local", 2)
        if asked.ray_alone:
            say("Ray actor killed", kill_workers(world, same, place, ray, asked.ray_alone))
            return
        one, two = likewise.Inline(), likewise.Processes(2)

        def two_processes(times: int) -> None:
            say("worker of two processes killed", kill_workers(world, same, place, two, times))
            killed = kill_main(world, same, place, two, times, asked.seed + "two")
            say("audit with two processes killed", killed)

        if asked.two_alone:
            two_processes(asked.two_alone)
            return
        left = asked.kills - 2 * some - share
        say("audit in one process killed", kill_main(world, same, place, one, left, asked.seed))
        kinds = damaged(world, same, place, 20, asked.seed)
        print(f"  {', '.join(f'{kind} {count}' for kind, count in sorted(kinds.items()))}")
        say("pieces damaged", sum(kinds.values()))
        say("data changed under the audit, refused", changed(world, same, place))
        say("disk full, refused", full_disk(world, same, place))
        say("second audit on one journal, refused", two_audits(world, same, place))
        two_processes(some)
        if share:
            say("Ray actor killed", kill_workers(world, same, place, ray, share))
    print("every audit ended as if nothing had happened, or in a sentence")


if __name__ == "__main__":
    sys.exit(main())
