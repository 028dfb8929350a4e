"""Workers as Ray actors: on this machine, or on a cluster that is already there."""

import contextlib
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

from likewise.errors import CostWarning, InvalidSettings, MissingExtra, in_short
from likewise.run.executors import (
    ENVIRONMENT,
    Executor,
    Job,
    Pool,
    Reply,
    Worker,
    check_workers,
    child_environment,
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
    @contextlib.contextmanager
    def pool(self, job: Job) -> Iterator[Pool]:
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
        actors = _Actors(ray, job, self.workers)
        try:
            yield actors
        finally:
            actors.end()
            if own:
                ray.shutdown()


class _Actors(Pool):
    """Actors, of which each has a task or none."""

    def __init__(self, ray: Any, job: Job, size: int | None) -> None:
        self.room = size or max(1, int(ray.cluster_resources().get("CPU", 1)))
        self._ray = ray
        self._job = ray.put(job.begin)
        self._make = ray.remote(num_cpus=1, runtime_env=RUNTIME)(Worker).remote
        self._idle = [self._make(self._job, whole=True) for _ in range(self.room)]
        self._busy: dict[Any, Any] = {}

    @override
    def submit(self, task: Any) -> Any:
        actor = self._idle.pop()
        reference = actor.answer.remote(task)
        self._busy[reference] = actor
        return reference

    @override
    def first_done(self, futures: Iterable[Any]) -> Iterable[Any]:
        return self._ray.wait(list(futures), num_returns=1)[0]

    @override
    def reply(self, future: Any) -> Reply:
        actor = self._busy.pop(future)
        try:
            reply: Reply = self._ray.get(future)
        except self._ray.exceptions.RayError as error:
            self._ray.kill(actor)
            actor = self._make(self._job, whole=True)
            reply = Reply(failure=f"its Ray worker was lost ({in_short(error)})")
        self._idle.append(actor)
        return reply

    def end(self) -> None:
        """End all actors, whatever they are doing."""
        for actor in [*self._idle, *self._busy.values()]:
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
