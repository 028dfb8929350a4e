"""Whatever happens to an audit, it ends as if nothing had happened, or in a sentence.

python benchmarks/faults.py [--kills 100] [--without-ray] [--quick]

Small audits by every method and executor keep their finished blocks in a folder, are killed
(SIGKILL; the audit, all of its processes, or one worker) at random moments, and are resumed until
they complete. Then journals are damaged, data changed while they are audited, disks full (a tmpfs,
where one can be mounted) and folders not to be written in. Every completed audit must have the
record and the rows of one that nothing happened to; every other one must end in a `LikewiseError`
of one line, and complete once the cause is gone.
"""

import argparse
import contextlib
import functools
import importlib.util
import json
import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression

import likewise
from likewise import session
from likewise.data.source import Blocks
from likewise.errors import LikewiseError

PEOPLE, BLOCK = 1200, 128
COLUMNS = ["income", "debt", "zip"]
WHEN = ("created", "seconds", "command", "warnings")
METHODS = ("pairs with a pool", "pairs by halves", "flow", "learned metric", "reach", "flip")
EXECUTORS: dict[str, Callable[[], Any]] = {
    "inline": likewise.executors.Inline,
    "threads": functools.partial(likewise.executors.Threads, 2),
    "processes": functools.partial(likewise.executors.Processes, 2),
    "ray": functools.partial(likewise.executors.Ray, "local", 2),
}


def people(n: int, seed: int) -> pd.DataFrame:
    """Return people of two groups."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 2, n).astype(float)
    x = rng.normal(size=(n, 3)) + np.outer(group, [0.3, 0.0, 1.2])
    paid = (x @ [1.0, -0.5, 0.7] + rng.logistic(size=n) > 0).astype(int)
    return pd.DataFrame(x, columns=COLUMNS).assign(group=group, paid=paid)


class World:
    """Models, people in four files, and what undisturbed audits find."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for k, rows in enumerate(np.array_split(np.arange(PEOPLE), 4)):
            people(PEOPLE, 0).iloc[rows].to_parquet(folder / f"part-{k}.parquet", row_group_size=97)
        self.files = sorted(map(str, folder.glob("part-*.parquet")))
        known = people(PEOPLE, 1)
        self.models = {
            width: LogisticRegression().fit(known[names], known["paid"])
            for width, names in ((3, COLUMNS), (4, [*COLUMNS, "group"]))
        }
        self._expected: dict[str, Any] = {}
        self.identical = 0

    def audit(self, method: str, executor: str, store: Path, **how: Any) -> Any:
        """Audit the people by a method, resuming what is there."""
        metric = likewise.metrics.ignoring([[0.0, 0.0, 1.0]])
        pairs = {"may_matter": COLUMNS[:2], "favourable": 1}
        flow = {"method": likewise.GradientFlow(time=0.5, lam=5.0)}
        chosen: dict[str, Any] = {
            METHODS[0]: {**pairs, "pool": people(800, 2)},
            METHODS[1]: pairs,
            METHODS[2]: {**flow, "metric": metric},
            METHODS[3]: flow,
            METHODS[4]: {
                "metric": metric.with_reach(people(500, 3)[COLUMNS].to_numpy()),
                "method": likewise.Reach(budget=20),
            },
            METHODS[5]: {"method": likewise.Flip()},
        }[method]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return likewise.audit(
                self.models[4 if method == "flip" else 3],
                self.files,
                label="paid",
                protected="group",
                checks="core",
                executor=EXECUTORS[executor](),
                store=likewise.Folder(store, resume=(store / "identity.json").exists()),
                **{**chosen, **how},
            )

    def check(self, method: str, result: Any) -> None:
        """Compare with what the undisturbed audit found; anything else ends the benchmark."""
        if method not in self._expected:
            self._expected[method] = content(
                self.audit(method, "inline", self.folder / "undisturbed")
            )
        assert content(result) == self._expected[method], f"{method}: another result"
        self.identical += 1


def content(result: Any) -> tuple[str, Any]:
    """Return all that an audit found, but for when it was."""
    record = json.loads(result.record.to_json())
    return json.dumps({k: v for k, v in record.items() if k not in WHEN}), result.rows


def apart(work: Callable[[], object], user: int = 0) -> int:
    """Do something in a process that is forked from this one, with all libraries loaded."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        os.setsid()  # its own group: workers are killed with it
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        if user:
            os.setuid(user)
        work()
        code = 0
    except LikewiseError as error:
        code = error.exit_code if len(str(error).splitlines()) == 1 else 1
    except BaseException as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
    finally:
        os._exit(code)


def ended(pid: int, within: float = 600.0) -> int:
    """Wait for a process; return its exit code, or minus the signal that ended it."""
    end = time.monotonic() + within
    while time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.killpg(pid, signal.SIGKILL)
    raise TimeoutError(f"an audit did not end within {within:.0f} seconds")


def kill(world: World, method: str, executor: str, store: Path, times: int, seed: str) -> int:
    """Kill an audit, or a worker of it, so often at random moments; each time resume it."""
    moments, kills, began = random.Random(seed), 0, time.monotonic()
    work = functools.partial(audited, world, method, executor, store)
    assert ended(apart(work)) == 0, f"{method}, {executor}: an undisturbed audit failed"
    seconds = time.monotonic() - began
    while kills < times:
        pid = apart(work)
        end = time.monotonic() + moments.uniform(0.02, seconds)
        while time.monotonic() < end and os.waitid(
            os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT
        ) is None:  # fmt: skip
            time.sleep(0.002)
        victims = workers(pid)
        worker = bool(victims) and moments.random() < 0.4
        with contextlib.suppress(ProcessLookupError):
            if worker:
                os.kill(moments.choice(victims), signal.SIGKILL)
                kills += 1
            elif moments.random() < 0.5:
                os.killpg(pid, signal.SIGKILL)
            else:
                os.kill(pid, signal.SIGKILL)
        code = ended(pid)
        if code == 0:  # it was quicker, or went on without a worker
            world.identical += 1
        else:
            assert code == -signal.SIGKILL, f"{method}, {executor}: exit code {code}"
            kills += not worker
    assert ended(apart(work)) == 0, f"{method}, {executor}: not completed"
    world.identical += 1
    return kills


def audited(world: World, method: str, executor: str, store: Path) -> None:
    """Audit, and compare."""
    world.check(method, world.audit(method, executor, store))


def workers(pid: int) -> list[int]:
    """Return the processes that measure people for an audit: those of a pool, or Ray's actors."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        known = b"spawn_main" in words or words.startswith(b"ray::_Actor")
        if known and pid in ancestors(int(folder.name)):
            found.append(int(folder.name))
    return found


def ancestors(pid: int) -> Iterator[int]:
    """Yield the parents of a process."""
    while pid > 1:
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            return
        yield pid


def stopped(world: World, method: str, store: Path) -> None:
    """Begin an audit, and stop it when most blocks are done."""

    def progress(what: str, done: int, total: int) -> None:
        if what == "measuring" and done >= 0.7 * total:
            raise KeyboardInterrupt

    with contextlib.suppress(KeyboardInterrupt):
        world.audit(method, "inline", store, progress=progress)
        raise AssertionError("the audit was not stopped")


def damage(moments: random.Random, store: Path) -> str:
    """Damage one or two finished parts of a journal, or its identity."""
    one, two = moments.sample(sorted(store.glob("*.done")), 2)
    kinds = ["swap", "cut", "flip", "empty", "foreign", "gone", "renamed", "identity", "link"]
    kind, body = moments.choice(kinds), bytearray(one.read_bytes())
    if kind == "swap":
        one.write_bytes(two.read_bytes())
        two.write_bytes(body)
    elif kind == "cut":
        one.write_bytes(body[: moments.randrange(1, len(body))])
    elif kind == "flip":
        body[moments.randrange(len(body))] ^= 1 << moments.randrange(8)
        one.write_bytes(body)
    elif kind == "empty":
        one.write_bytes(b"")
    elif kind == "foreign":  # as another audit would have written it
        header, _, rest = bytes(body).partition(b"\n")
        length, digest = header.split()
        one.write_bytes(b" ".join([length, digest[::-1]]) + b"\n" + rest)
    elif kind == "gone":
        one.unlink()
    elif kind == "renamed":
        one.rename(store / "part-0000000100-0000000101.done")
    elif kind == "identity":
        (store / "identity.json").write_bytes(b"{" + bytes(moments.randrange(9)))
    else:
        one.unlink()
        one.symlink_to("/etc/passwd")
    return kind


def damaged(world: World, store: Path, times: int, seed: str) -> str:
    """Damage the journals of stopped audits, and resume them; so often."""
    moments, kinds = random.Random(seed), []
    for method in METHODS:
        stopped(world, method, store.with_name(f"saved {method}"))
    for number in range(times):
        method = METHODS[number % len(METHODS)]
        shutil.copytree(store.with_name(f"saved {method}"), store)
        kinds.append(damage(moments, store))
        if kinds[-1] == "identity":
            refused(lambda m=method: world.audit(m, "inline", store))
            shutil.rmtree(store)
        audited(world, method, "inline", store)
    return ", ".join(f"{kind} {kinds.count(kind)}" for kind in sorted(set(kinds)))


def refused(work: Callable[[], object], user: int = 0) -> None:
    """Check that something ends in a sentence and code 2 or 3."""
    code = ended(apart(work, user))
    assert code in (2, 3), f"exit code {code}"


CHANGES: dict[str, Callable[[pd.DataFrame], pd.DataFrame]] = {
    "a label flipped": lambda t: t.assign(paid=t["paid"].where(t.index != 70, 1 - t["paid"])),
    "a label that was not there": lambda t: t.assign(paid=t["paid"].where(t.index != 70, 7)),
    "a group that was not there": lambda t: t.assign(group=t["group"].where(t.index != 70, 7.0)),
    "a row less": lambda t: t.iloc[1:],
    "two rows exchanged": lambda t: t.iloc[[1, 0, *range(2, len(t))]],
}


def changed(world: World, store: Path) -> int:
    """Change the last file while the first people are measured; put it right, and resume."""
    last = Path(world.files[-1])
    good = last.read_bytes()
    for change, method in zip(CHANGES.values(), METHODS, strict=False):

        def progress(what: str, done: int, total: int, change: Any = change) -> None:
            if what == "measuring" and last.read_bytes() == good:
                table = change(pd.read_parquet(last).reset_index(drop=True))
                table.to_parquet(last, row_group_size=97, index=False)

        refused(lambda m=method, p=progress: world.audit(m, "inline", store, progress=p))
        last.write_bytes(good)
        audited(world, method, "inline", store)
    return len(CHANGES)


@contextlib.contextmanager
def small_disk(folder: Path, kilobytes: int) -> Iterator[bool]:
    """Mount a disk of so many kilobytes, if that is allowed here."""
    folder.mkdir(exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", str(folder)]
    done = subprocess.run(command, capture_output=True, check=False).returncode == 0
    try:
        yield done
    finally:
        if done:
            subprocess.run(["umount", str(folder)], check=True)


def full_disks(world: World, place: Path) -> int:
    """Let disks of some sizes be full; make room, and resume."""
    count, store, rows = 0, place / "journal", place / "rows.parquet"
    for kilobytes in (4, 12, 24, 40):
        for method in ("flow", "pairs with a pool"):
            with small_disk(place, kilobytes) as mounted:
                if not mounted:
                    print("  no disk can be mounted here: full disks are left out")
                    return count
                refused(lambda m=method: world.audit(m, "inline", store, outcomes=rows))
                resize = "remount,size=64m"
                subprocess.run(["mount", "-o", resize, str(place)], check=True)
                audited(world, method, "inline", store)
                count += 1
    return count


def read_only(world: World, place: Path) -> int:
    """Let a user whom the folder does not belong to audit, then the one it belongs to."""
    if os.getuid():
        print("  another user's folder needs root: left out")
        return 0
    place.mkdir(mode=0o755)
    for method in METHODS[:2]:
        refused(lambda m=method: world.audit(m, "inline", place / "journal"), user=65534)
        audited(world, method, "inline", place / "journal")
    return 2


def two_audits(world: World, store: Path) -> int:
    """Begin a second audit while the first one holds the folder."""
    begun, go_on = multiprocessing.Pipe()

    def progress(what: str, done: int, total: int) -> None:
        if what == "measuring" and not done:
            go_on.send(done)
            go_on.recv()

    pid = apart(
        lambda: world.check("flow", world.audit("flow", "inline", store, progress=progress))
    )
    begun.recv()
    refused(lambda: world.audit("flow", "inline", store))
    begun.send(0)
    assert ended(pid) == 0
    world.identical += 1
    return 1


def main() -> None:
    """Let everything happen, and say what became of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", default="0")
    parser.add_argument("--without-ray", action="store_true")
    parser.add_argument("--quick", action="store_true", help="12 kills, without Ray")
    asked = parser.parse_args()
    kills = 12 if asked.quick else asked.kills
    ray = not (asked.without_ray or asked.quick) and importlib.util.find_spec("ray") is not None
    names = [name for name in EXECUTORS if ray or name != "ray"]
    cases = [(method, executor) for executor in names for method in METHODS]
    session.Blocks = lambda source, size: Blocks(source, min(size, BLOCK))  # type: ignore
    with tempfile.TemporaryDirectory(prefix="likewise-faults-") as name:
        folder = Path(name)
        os.chmod(folder, 0o755)
        (folder / "world").mkdir()
        world, store = World(folder / "world"), folder / "store"
        for method in METHODS:
            audited(world, method, "inline", store)

        def say(what: str, count: int) -> None:
            print(f"{what:<48}{count:>5}{world.identical:>7} identical", flush=True)

        say("undisturbed audits", len(METHODS))
        done = 0
        for number, (method, executor) in enumerate(cases):
            times = kills * (number + 1) // len(cases) - kills * number // len(cases)
            if times:
                done += kill(world, method, executor, store, times, f"{asked.seed} {number}")
                say(f"killed so far; {method}, {executor}", done)
        print(f"  {damaged(world, store, 20, asked.seed)}")
        say("journals damaged", 20)
        say("data changed under the audit, refused", changed(world, store))
        say("disks full, refused", full_disks(world, folder / "disk"))
        say("folders of another user, refused", read_only(world, folder / "other"))
        say("second audits on one journal, refused", two_audits(world, store))
    print("every audit ended as if nothing had happened, or in a sentence")


if __name__ == "__main__":
    sys.exit(main())
