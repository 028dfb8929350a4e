"""Models behind an HTTP address: rows as JSON out, probabilities as JSON back."""

import dataclasses
import json
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from http.client import HTTPException
from typing import Any, final

import numpy as np
import pyarrow as pa
from jaxtyping import Float
from typing_extensions import override

from likewise.errors import InvalidModel, InvalidSettings, NoAnswer, Untrustworthy, without_query
from likewise.losses import Output
from likewise.models.black_box import BlackBox, from_callable
from likewise.models.decoded import ColumnReader

LARGEST = 100_000_000
"""Bytes of an answer that are read; a thousand rows need far less."""

WHOLE = (200, 201)
"""Codes of an answer that is complete; 206, say, is a part of one."""

ANSWERS = ("predictions", "probabilities", "outputs")


class Counter:
    """Counts requests, for all threads together."""

    def __init__(self) -> None:
        self.made = 0
        self.lock = threading.Lock()

    def __next__(self) -> int:
        with self.lock:
            self.made += 1
            return self.made

    def __reduce__(self) -> Any:  # a lock cannot travel; each process counts for itself
        return Counter, ()


@final
@dataclasses.dataclass(frozen=True, eq=False)
class Endpoint:
    """A model that is asked over HTTP.

    Each request is a POST of ``{"instances": [[…], …]}``, one list a person, as TensorFlow
    Serving, KServe, Vertex AI and MLflow take it. The answer is a list, or an object with a list
    under ``predictions``, ``probabilities`` or ``outputs``: for each person the probability of the
    second class, or a list with one probability a class.

    Parameters
    ----------
    url
        Where to; it is the only host that people's data are sent to, and redirects are refused.
        What follows a question mark is never printed or saved.
    output
        ``probabilities``, or ``values`` for a regression.
    batch
        Rows a request.
    timeout
        Seconds to wait for an answer.
    retries
        How often to ask again when the server fails, is busy or silent; each pause is twice as
        long as the one before.
    pause
        Seconds before the first of these.
    max_calls
        Requests allowed in all, repeated ones included.
    processes
        Processes that ask, each of which may make an equal part of these requests.
    headers
        Sent with each request: an authorisation, say.
    """

    url: str = dataclasses.field(repr=False)
    output: Output = "probabilities"
    batch: int = 1000
    timeout: float = 30.0
    retries: int = 4
    pause: float = 0.5
    max_calls: int = 100_000
    processes: int = 1
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict, repr=False)
    calls: Counter = dataclasses.field(default_factory=Counter, init=False, repr=False)

    def __post_init__(self) -> None:
        try:
            parts = urllib.parse.urlsplit(self.url)
            good = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
            good = good and self.url.isascii() and self.url.isprintable() and " " not in self.url
        except ValueError:
            good = False
        if not good:
            raise InvalidSettings(
                f"{self.address!r} is not an address such as http://host:8000/predict."
            )
        if parts.username is not None:
            raise InvalidSettings("Give a password in a header, not in the address: it is printed.")
        for name in ("batch", "timeout", "max_calls", "processes"):
            if not getattr(self, name) > 0:
                raise InvalidSettings(f"{name} must be positive, not {getattr(self, name)}.")
        if self.max_calls < self.processes:
            raise InvalidSettings(
                f"{self.max_calls} calls (max_calls) are too few for {self.processes} processes."
            )

    @property
    def address(self) -> str:
        """The address as it may be printed: what follows the question mark is a hash."""
        return without_query(self.url)

    def model(self, classes: tuple[Any, ...] = ()) -> BlackBox:
        """Return the model that is given rows of features."""
        box = from_callable(self, output=self.output, classes=classes, kind="HTTP endpoint")
        # How many digits it computes with, and how many it sends, nobody knows.
        return dataclasses.replace(box, dtype=np.dtype(np.float32), declared=False)

    def reader(self, columns: tuple[str, ...] = ()) -> ColumnReader:
        """Return the model that is given original columns, one object a person."""
        return ColumnReader(self.model().card, columns, self.ask_table)

    def ask_table(self, table: pa.Table) -> Float[np.ndarray, "n k"]:
        """Ask about people given by their original columns."""
        return self._ask_all(
            table.num_rows, lambda start: table.slice(start, self.batch).to_pylist()
        )

    def __call__(self, x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n k"]:
        """Ask about rows of features."""
        return self._ask_all(len(x), lambda start: x[start : start + self.batch].tolist())

    def _ask_all(self, n: int, rows: Callable[[int], list[Any]]) -> Float[np.ndarray, "n k"]:
        parts = [self._ask(rows(start)) for start in range(0, n, self.batch)]
        if len({part.shape[1] for part in parts}) > 1:
            raise InvalidModel(f"{self.address} gave answers of different lengths.")
        return np.concatenate(parts)

    def _ask(self, rows: list[Any]) -> Float[np.ndarray, "n k"]:
        body = json.dumps({"instances": rows}, default=str).encode()
        problem = ""
        for attempt in range(self.retries + 1):
            if attempt:
                time.sleep(self.pause * 2 ** (attempt - 1))
            allowed = self.max_calls // self.processes
            if next(self.calls) > allowed:
                whose = f"to one of {self.processes} processes " if self.processes > 1 else ""
                raise Untrustworthy(
                    f"{self.address} was asked {allowed} times, which is all that was allowed "
                    f"{whose}(max_calls)."
                )
            try:
                return _matrix(self._post(body), len(rows), self.address)
            except _Again as error:
                problem = str(error)
        raise NoAnswer(f"{self.address} {problem} ({self.retries + 1} attempts).")

    def _post(self, body: bytes) -> bytes:
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        request = urllib.request.Request(self.url, body, {**headers, **self.headers})
        end = time.monotonic() + self.timeout
        try:
            with _opener(self.url).open(request, timeout=self.timeout) as answer:
                if answer.status not in WHOLE:
                    raise InvalidModel(
                        f"{self.address} answers with {answer.status}, which is not a whole answer."
                    )
                return _read(answer, end, self.address)
        except urllib.error.HTTPError as error:
            error.close()
            if 300 <= error.code < 400:
                raise InvalidModel(
                    f"{self.address} redirects to another address ({error.code}); people's data "
                    "are sent only where you say, so give that address itself."
                ) from None
            if error.code in (408, 425, 429) or error.code >= 500:
                raise _Again(f"answers with an error ({error.code})") from None
            raise InvalidModel(
                f"{self.address} refuses the request ({error.code} {error.reason})."
            ) from None
        except TimeoutError:
            raise _Again(f"gives no answer within {self.timeout:g} seconds") from None
        except urllib.error.URLError as error:
            if isinstance(error.reason, TimeoutError):
                raise _Again(f"gives no answer within {self.timeout:g} seconds") from None
            raise _Again(f"cannot be reached: {error.reason}") from None
        except (OSError, HTTPException) as error:
            raise _Again(f"breaks off: {type(error).__name__}") from None


class _Again(Exception):
    """A failure that may pass."""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    @override
    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        return None  # the redirect is then an error, with its number


def _opener(url: str) -> urllib.request.OpenerDirector:
    host = urllib.parse.urlsplit(url).hostname or ""
    near = host in ("localhost", "::1") or host.startswith("127.")
    handlers = [urllib.request.ProxyHandler({})] if near else []
    return urllib.request.build_opener(_NoRedirect, *handlers)


def _read(answer: Any, end: float, address: str) -> bytes:
    """Read an answer, but not for ever, nor without limit."""
    parts, size = [], 0
    # One receive at a time: a server that sends a byte now and then never times out by itself.
    while part := answer.read1(1 << 16):
        parts.append(part)
        size += len(part)
        if size > LARGEST:
            raise InvalidModel(f"{address} sends more than {LARGEST:,} bytes for one request.")
        if time.monotonic() > end:
            raise TimeoutError
    if answer.length:
        raise _Again("breaks off in the middle of an answer")
    return b"".join(parts)


def _matrix(content: bytes, n: int, url: str) -> Float[np.ndarray, "n k"]:
    try:
        answer = json.loads(content)
    except (ValueError, RecursionError):
        raise InvalidModel(f"{url} answers with something that is not JSON.") from None
    if isinstance(answer, dict):
        answer = next((answer[name] for name in ANSWERS if name in answer), None)
    try:
        matrix = np.array(answer if isinstance(answer, list) else None, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InvalidModel(f"{url} answers with something other than numbers.") from None
    if matrix.ndim not in (1, 2) or not matrix.size:
        raise InvalidModel(
            f"{url} answers without a list of numbers under {', '.join(ANSWERS)}, or bare."
        )
    if len(matrix) != n:
        raise InvalidModel(f"{url} gave {len(matrix)} answers for {n} rows.")
    if not np.isfinite(matrix).all():
        raise InvalidModel(f"{url} answers with NaN or infinite numbers.")
    return matrix.reshape(n, -1)
