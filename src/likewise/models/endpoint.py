"""Models behind an HTTP address: rows as JSON out, probabilities as JSON back."""

import contextlib
import dataclasses
import http.client
import json
import socket
import ssl
import threading
import time
import urllib.parse
from collections.abc import Mapping
from typing import Any, final

import numpy as np
import pyarrow as pa

from likewise.errors import InvalidModel, InvalidSettings, NoAnswer, without_query
from likewise.loss import Output, Outputs, Rows
from likewise.models.base import Model, ModelCard, in_parts
from likewise.models.black_box import BlackBox

CLASSES, DIGITS, AROUND = 1000, 32, 10_000
"""Classes of an answer, bytes of a number in it, and bytes around them, that are read at most."""

REASON = 80
"""Characters of somebody else's words that are repeated."""

ANSWERS = ("predictions", "probabilities", "outputs")


TIMEOUT = 30.0
"""Seconds to wait for an answer, unless another time is named."""

PAUSE = 0.5
"""Seconds before a request is sent again; each pause is twice as long as the one before."""


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
        How often to ask again when the server fails, is busy or silent.
    headers
        Sent with each request: an authorisation, say.
    """

    url: str = dataclasses.field(repr=False)
    output: Output = "probabilities"
    batch: int = 1000
    timeout: float = TIMEOUT
    retries: int = 4
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict, repr=False)

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
        if not (self.batch > 0 and self.timeout > 0):
            raise InvalidSettings(
                f"batch and timeout must be positive, not {self.batch} and {self.timeout}."
            )

    @property
    def address(self) -> str:
        """The address as it may be printed: what follows the question mark is a hash."""
        return without_query(self.url)

    def model(self, output: Output | None, classes: tuple[Any, ...] = ()) -> Model:
        """Return the model that is given rows of features."""
        card = ModelCard("HTTP endpoint", output or self.output, classes, differentiable=False)
        # How many digits it computes with, and how many it sends, nobody knows.
        return BlackBox(card, self, np.dtype(np.float32)).replaced(answer=self)

    def prepare(self, table: pa.Table) -> dict[str, Any]:
        """Return the columns of a table as Arrow arrays."""
        return {name: table[name].combine_chunks() for name in table.column_names}

    def ask(self, columns: Mapping[str, Any]) -> Outputs:
        """Ask about people given by their original columns, one object a person."""
        table = pa.table(dict(columns))
        return in_parts(lambda at: self._ask(table[at].to_pylist()), len(table), self.batch)

    def __call__(self, x: Rows) -> Outputs:
        """Ask about rows of features."""
        return in_parts(lambda at: self._ask(x[at].tolist()), len(x), self.batch)

    def _ask(self, rows: list[Any], attempt: int = 1) -> Outputs:
        body = json.dumps({"instances": rows}, default=str).encode()
        try:
            most = AROUND + CLASSES * DIGITS * len(rows)
            return _matrix(self._post(body, most), len(rows), self.address)
        except _Again as error:
            if attempt > self.retries:
                raise NoAnswer(f"{self.address} {error} ({attempt} attempts).") from None
        time.sleep(PAUSE * 2 ** (attempt - 1))
        return self._ask(rows, attempt + 1)

    def _post(self, body: bytes, most: int) -> bytes:
        """Send a request, and read no more than ``most`` bytes until the time is over.

        A timeout of a socket is for one byte: a server that sends a header, the size of a chunk or
        ``100 Continue`` again and again is never silent for long. So a clock ends the connection.
        """
        parts = urllib.parse.urlsplit(self.url)
        place = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
        headers = {"Content-Type": "application/json", "Accept": "application/json", **self.headers}
        target = urllib.parse.urlunsplit(("", "", parts.path or "/", parts.query, ""))
        end = time.monotonic() + self.timeout
        try:
            plain = socket.create_connection(place, self.timeout)
        except OSError as error:
            raise _Again(f"cannot be reached: {str(error)[:REASON]}") from None
        watched = plain.dup()  # it may be wrapped for encryption
        timer = threading.Timer(max(0, end - time.monotonic()), _shut, (watched,))
        timer.daemon = True
        timer.start()
        connection = http.client.HTTPConnection(*place)
        connection.sock = plain
        try:
            if parts.scheme == "https":
                context = ssl.create_default_context()
                connection.sock = context.wrap_socket(plain, server_hostname=place[0])
            connection.request("POST", target, body, headers)
            answer = connection.getresponse()
            content = answer.read(most + 1)
            if time.monotonic() >= end:  # what was cut off may look like a whole answer
                raise TimeoutError
        except (OSError, http.client.HTTPException, ValueError) as error:
            if time.monotonic() >= end or isinstance(error, TimeoutError):
                raise _Again(f"gives no answer within {self.timeout:g} seconds") from None
            raise _Again(f"breaks off: {type(error).__name__}") from None
        finally:
            connection.close()
            timer.cancel()
            timer.join()
            watched.close()
        self._check_status(answer.status, answer.reason)
        if len(content) > most:
            raise InvalidModel(f"{self.address} sends more than {most:,} bytes for one request.")
        if answer.length:
            raise _Again("breaks off in the middle of an answer")
        return content

    def _check_status(self, code: int, reason: str) -> None:
        if 300 <= code < 400:
            raise InvalidModel(
                f"{self.address} redirects to another address ({code}); people's data are sent "
                "only where you say, so give that address itself."
            )
        if code in (408, 425, 429) or code >= 500:
            raise _Again(f"answers with an error ({code})")
        if code >= 400:
            raise InvalidModel(f"{self.address} refuses the request ({code} {reason[:REASON]}).")
        if code not in (200, 201):  # 206, say, is a part of one
            raise InvalidModel(f"{self.address} answers with {code}, which is not a whole answer.")


def _shut(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


class _Again(Exception):
    """A failure that may pass."""


def _matrix(content: bytes, n: int, url: str) -> Outputs:
    try:
        answer = json.loads(content)
    except (ValueError, RecursionError):
        raise InvalidModel(f"{url} answers with something that is not JSON.") from None
    if isinstance(answer, dict):
        answer = next((answer[name] for name in ANSWERS if name in answer), None)
    if not isinstance(answer, list) or not answer:
        raise InvalidModel(
            f"{url} answers without a list of numbers under {', '.join(ANSWERS)}, or bare."
        )
    # NumPy would take 'true' and '"0.5"' for numbers, too.
    values = [v for row in answer for v in (row if isinstance(row, list) else (row,))]
    try:
        if not values or not all(type(value) in (int, float) for value in values):
            raise TypeError
        matrix = np.array(answer, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InvalidModel(f"{url} answers with something other than numbers.") from None
    if len(matrix) != n:
        raise InvalidModel(f"{url} gave {len(matrix)} answers for {n} rows.")
    if not np.isfinite(matrix).all():
        raise InvalidModel(f"{url} answers with NaN or infinite numbers.")
    return matrix.reshape(n, -1)
