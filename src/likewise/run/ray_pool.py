"""Workers as Ray actors: on this machine, or on a cluster that is already there."""

import collections
import dataclasses
import importlib
import importlib.util
import logging
import os
import sys
import warnings
from collections.abc import Iterable, Iterator
from typing import Any, final

from typing_extensions import override

from likewise.errors import CostWarning, InvalidSettings, LikewiseError, MissingExtra, in_short
from likewise.run.executors import (
    ENVIRONMENT,
    Executor,
    Job,
    Reply,
    attempt,
    check_workers,
    child_environment,
    single_threaded,
)

RUNTIME = {"env_vars": ENVIRONMENT}
"""What Ray gives the processes of actors."""


@final
@dataclasses.dataclass(frozen=True)
class Ray(Executor):
    """Ray actors, one thread each; an actor that is lost is replaced.

    Ray's own ports listen on all interfaces of a machine unless told otherwise. Here they are told
    to keep to 127.0.0.1 (``local``), and neither the dashboard nor usage statistics are started.
    A firewall is the only sure way, though, and a warning says so.

    Parameters
    ----------
    address
        ``local``, ``auto`` (the cluster that is there), or the address of a cluster.
    workers
        Number of actors; by default one for each processor of the cluster.
    """

    address: str = "local"
    workers: int | None = None

    def __post_init__(self) -> None:
        check_workers(self.workers)
        if importlib.util.find_spec("ray") is None:
            raise MissingExtra("Ray is not installed. Install it with: pip install 'likewise[ray]'")

    @property
    @override
    def processes(self) -> int:
        # Actors elsewhere take no memory of this machine, and nobody knows which are here.
        return (self.workers or 1) if self.address == "local" else 0

    @override
    def map(self, job: Job, tasks: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
        waiting = iter(tasks)
        following = next(waiting, None)
        if following is None:
            return
        warnings.warn(
            "Ray opens ports of its own on this machine; keep it behind a firewall. Its dashboard "
            "and usage statistics are off.",
            CostWarning,
            stacklevel=2,
        )
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        # The threads of libraries are one for each actor; Ray must not pin them elsewhere.
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        ray: Any = importlib.import_module("ray")
        own = not ray.is_initialized()
        if own:
            _start(ray, self.workers, self.address)
        failures: collections.Counter[Any] = collections.Counter()
        crew = _Actors(ray, job, self.workers)
        try:
            while following is not None or crew.under_way:
                while following is not None and crew.idle:
                    crew.submit(following)
                    following = next(waiting, None)
                task, reply = crew.wait()
                if self.accept(task, reply, failures):
                    yield task, reply.answer
                else:
                    crew.submit(task)
        finally:
            crew.close()
            if own:
                ray.shutdown()


class _Actor:
    """What runs in a Ray worker: the job, begun once."""

    def __init__(self, job: Job) -> None:
        self._refusal: LikewiseError | None = None
        try:
            self._work = job.begin()
        except LikewiseError as error:
            self._refusal = error
        single_threaded().__enter__()  # for as long as the process lives

    def answer(self, task: Any) -> Reply:
        """Answer one task."""
        if self._refusal is not None:
            return Reply(refusal=self._refusal)
        return attempt(self._work, task)


class _Actors:
    """The actors, and which task each has."""

    def __init__(self, ray: Any, job: Job, size: int | None) -> None:
        self._ray = ray
        self._job = ray.put(job)
        self._make = ray.remote(num_cpus=1, runtime_env=RUNTIME)(_Actor).remote
        size = size or max(1, int(ray.cluster_resources().get("CPU", 1)))
        self.idle = [self._make(self._job) for _ in range(size)]
        self.under_way: dict[Any, tuple[Any, Any]] = {}

    def submit(self, task: Any) -> None:
        """Give a task to an idle actor."""
        actor = self.idle.pop()
        self.under_way[actor.answer.remote(task)] = task, actor

    def wait(self) -> tuple[Any, Reply]:
        """Return a task that is done, and what became of it; a lost actor is replaced."""
        (reference, *_), _ = self._ray.wait(list(self.under_way), num_returns=1)
        task, actor = self.under_way.pop(reference)
        try:
            reply: Reply = self._ray.get(reference)
        except self._ray.exceptions.RayError as error:
            self._ray.kill(actor)
            actor = self._make(self._job)
            reply = Reply(failure=f"its Ray worker was lost ({in_short(error)})")
        self.idle.append(actor)
        return task, reply

    def close(self) -> None:
        """End all actors, whatever they are doing."""
        for actor in [*self.idle, *(actor for _, actor in self.under_way.values())]:
            self._ray.kill(actor)


def _start(ray: Any, size: int | None, address: str) -> None:
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
    local = {"num_cpus": size, "include_dashboard": False, "_node_ip_address": "127.0.0.1"}
    config = ray.job_config.JobConfig(runtime_env=RUNTIME)
    config._py_driver_sys_path = _OwnFolders()
    try:
        with child_environment():
            here = local if address == "local" else {}
            ray.init(address=address, job_config=config, **quiet, **here)
    except Exception as error:
        raise InvalidSettings(
            f"Ray cannot be reached at {address!r} ({in_short(error)}). Start a cluster with 'ray "
            "start', or use --run ray."
        ) from None


class _OwnFolders(list[str]):
    """Folders that Ray's workers import from, besides Python's own: those of this process.

    Ray adds the current folder, which anybody may have written, and has no setting against it.
    """

    @override
    def extend(self, folders: Iterable[str]) -> None:
        own = {os.path.abspath(folder) for folder in sys.path}
        super().extend(folder for folder in folders if folder in own)
