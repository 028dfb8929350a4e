"""Workers as Ray actors: on this machine, or on a cluster that is already there."""

import importlib
import importlib.util
import logging
import os
import warnings
from typing import Any, final

from typing_extensions import override

from likewise.errors import CostWarning, InvalidSettings, MissingExtra, in_short
from likewise.scale.crew import Answer, Crew, Job, attempt


def announce() -> None:
    """Say what Ray opens, before it is started; refuse at once if it is not installed."""
    if importlib.util.find_spec("ray") is None:
        raise MissingExtra("Ray is not installed. Install it with: pip install 'likewise[ray]'")
    warnings.warn(
        "Ray opens ports of its own on this machine; keep it behind a firewall. Its dashboard "
        "and usage statistics are off.",
        CostWarning,
        stacklevel=3,
    )


class _Actor:
    """What runs in a Ray worker: the job, begun once."""

    def __init__(self, job: Job) -> None:
        self._work = job.begin()

    def process(self) -> int:
        """Return the id of the process, for those who must know who works."""
        return os.getpid()

    def answer(self, number: int, content: Any) -> Answer:
        """Do one piece of work."""
        return attempt(self._work, number, content)


@final
class RayCrew(Crew):
    """Ray actors, one thread each; an actor that is lost is replaced.

    Ray's own ports listen on all interfaces of a machine unless told otherwise. Here they are told
    to keep to 127.0.0.1 (``local``), and neither the dashboard nor usage statistics are started.
    A firewall is the only sure way, though: `announce` says so beforehand.

    Parameters
    ----------
    size
        Number of actors; by default one for each processor of the cluster.
    address
        ``local``, ``auto``, or the address of a cluster.
    """

    def __init__(self, job: Job, size: int | None, address: str) -> None:
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        # Libraries have one thread in each actor; Ray must not pin them elsewhere.
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        ray: Any = importlib.import_module("ray")
        self._ray = ray
        self._own = not ray.is_initialized()
        if self._own:
            _start(ray, size, address)
        self.size = size or max(1, int(ray.cluster_resources().get("CPU", 1)))
        self._job = ray.put(job)
        self._make = ray.remote(num_cpus=1)(_Actor).remote
        self._idle = [self._make(self._job) for _ in range(self.size)]
        self._under_way: dict[Any, tuple[int, Any]] = {}

    def process_ids(self) -> list[int]:
        """Return the process ids of idle actors."""
        return self._ray.get([actor.process.remote() for actor in self._idle])

    @override
    def submit(self, number: int, content: Any) -> None:
        actor = self._idle.pop()
        self._under_way[actor.answer.remote(number, content)] = number, actor

    @override
    def wait(self) -> list[Answer]:
        ready, _ = self._ray.wait(list(self._under_way), num_returns=1)
        return [self._receive(reference) for reference in ready]

    def _receive(self, reference: Any) -> Answer:
        number, actor = self._under_way.pop(reference)
        try:
            answer: Answer = self._ray.get(reference)
        except self._ray.exceptions.RayError as error:
            self._ray.kill(actor)
            self._idle.append(self._make(self._job))
            return Answer(number, failure=f"its Ray worker was lost ({in_short(error)})")
        self._idle.append(actor)
        return answer

    @override
    def close(self) -> None:
        for actor in [*self._idle, *(actor for _, actor in self._under_way.values())]:
            self._ray.kill(actor)
        if self._own:
            self._ray.shutdown()


def _start(ray: Any, size: int | None, address: str) -> None:
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
    try:
        if address == "local":
            ray.init(
                address="local",
                num_cpus=size,
                include_dashboard=False,
                _node_ip_address="127.0.0.1",
                **quiet,
            )
        else:
            ray.init(address=address, **quiet)
    except Exception as error:
        raise InvalidSettings(
            f"Ray cannot be reached at {address!r} ({in_short(error)}). Start a cluster with 'ray "
            "start', or use --run ray."
        ) from None
