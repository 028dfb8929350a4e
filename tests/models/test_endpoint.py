import contextlib
import socket
import threading
import time
import warnings

import numpy as np
import pyarrow as pa
import pytest
from sklearn.linear_model import LogisticRegression

from helpers import serving
from likewise.audit_data import AuditData
from likewise.data.encoder import Encoder
from likewise.errors import InvalidModel, InvalidSettings
from likewise.handle import adapt
from likewise.models import Endpoint, as_model, check, open_model
from likewise.run.executors import Threads


@pytest.fixture
def server():
    with serving() as server:
        yield server


@pytest.fixture
def x(rng):
    return rng.normal(size=(120, 3))


def quick(server, **choices):
    return Endpoint(server.url, **{"timeout": 0.3, "retries": 2, **choices})


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch):
    monkeypatch.setattr("likewise.models.endpoint.PAUSE", 0.01)


@pytest.mark.parametrize("key", ["predictions", "probabilities", "outputs", None])
@pytest.mark.parametrize("single", [True, False])
def test_an_endpoint_gives_the_probabilities_of_the_model_behind_it(key, single, server, x):
    logistic = LogisticRegression().fit(x, x[:, 0] > 0)

    def behave(handler, rows):
        p = logistic.predict_proba(np.array(rows))
        found = (p[:, 1] if single else p).tolist()
        handler.answer({key: found} if key else found)

    server.behave = behave
    model = as_model(open_model(server.url), classes=(False, True))
    check(model, x)
    expected = logistic.predict_proba(x)[:, 1:] if single else logistic.predict_proba(x)
    # JSON keeps all digits of a double.
    assert np.abs(model(x) - expected).max() < 1e-15
    assert (model.card.kind, model.card.classes) == ("HTTP endpoint", (False, True))


def half(handler, rows):
    handler.answer({"predictions": [0.5] * len(rows)})


def test_rows_are_sent_in_batches_and_come_back_in_order(server, x):
    server.behave = lambda handler, rows: handler.answer([row[0] for row in rows])
    endpoint = quick(server, batch=50, headers={"Authorization": "Bearer abc"})
    assert np.array_equal(endpoint(x)[:, 0], x[:, 0])
    assert [len(body["instances"]) for body, _ in server.requests] == [50, 50, 20]
    assert all(headers["Authorization"] == "Bearer abc" for _, headers in server.requests)
    assert "abc" not in repr(endpoint)


def test_a_failure_that_passes_is_tried_again_after_pauses_that_double(server, x, monkeypatch):
    pauses = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    failures = iter([500, 503, 429])

    def behave(handler, rows):
        code = next(failures, 200)
        handler.answer([0.5] * len(rows), code) if code == 200 else handler.answer({}, code)

    server.behave = behave
    assert quick(server, retries=3)(x).shape == (120, 1)
    assert len(server.requests) == 4
    server.behave = lambda handler, rows: handler.answer({}, 500)
    with pytest.raises(InvalidModel, match=r"answers with an error \(500\) \(2 attempts\)"):
        quick(server, retries=1)(x)
    assert pauses == [0.01, 0.02, 0.04, 0.01]


def never(handler, rows):
    time.sleep(1)


def again(first, then=None):
    """Return what sends something, and then a little more for ever, never silent for long."""

    def behave(handler, rows):
        with contextlib.suppress(OSError):
            handler.wfile.write(first)
            for _ in range(100):
                handler.wfile.write(first if then is None else then)
                time.sleep(0.02)

    return behave


def long_reason(handler, rows):
    handler.wfile.write(b"HTTP/1.1 404 " + b"no " * 9000 + b"\r\nContent-Length: 0\r\n\r\n")


SILENT = r"gives no answer within 0\.3 seconds \(2 attempts\)"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
BROKEN = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n[0.5, "
NO_NUMBERS = ([[[1.0]]], [True], ["0.5"], ["1j"], [[0.5, True]], [10**400], ["yes"], [None])


def answer(content, code=200, **headers):
    return lambda handler, rows: handler.answer(content, code, **headers)


@pytest.mark.parametrize(
    ("behave", "words"),
    [
        (never, SILENT),
        (again(b"HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n", b" "), SILENT),
        (again(b"HTTP/1.1 100 Continue\r\n\r\n"), SILENT),
        (again(CHUNKED + b"1;x=", b"a"), SILENT),
        (again(CHUNKED + b"1\r\n[\r\n0\r\n", b"X: y\r\n"), SILENT),
        (lambda h, rows: h.wfile.write(BROKEN), r"breaks off in the middle .* \(2 attempts\)"),
        (lambda h, rows: h.connection.close(), r"\(2 attempts\)"),
        (answer({}, 404), "refuses the request .404"),
        (long_reason, r"\(404 no no"),
        (answer({}, 302, Location="http://example.org/"), "redirects to another"),
        *((answer([0.5], code), f"answers with {code}, which is not") for code in (202, 204, 206)),
        (answer(b"<html>"), "not JSON"),
        (answer(b"[" * 100_000), "not JSON"),
        (answer(b"[" + b" " * 4_000_000), "sends more than 3,850,000 bytes"),
        (answer({"answer": 1}), "without a list of numbers"),
        (answer([[]] * 120), "other than numbers"),
        *((answer(bad * 120), "other than numbers") for bad in NO_NUMBERS),
        (answer([[0.5], [0.5, 0.5]]), "other than numbers"),
        (answer([0.5] * 7), "gave 7 answers for 120 rows"),
        (answer(b"[" + b"NaN," * 119 + b"NaN]"), "NaN or infinite"),
    ],
)
def test_a_bad_server_is_one_sentence(behave, words, server, x):
    server.behave = behave
    began = time.monotonic()
    with pytest.raises(InvalidModel, match=words) as caught:
        quick(server, retries=1)(x)
    assert time.monotonic() - began < 1.6  # of 0.6 seconds for two attempts
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 200
    assert str(caught.value).startswith(server.url)


def test_a_handshake_byte_by_byte_ends_at_the_timeout(x):
    listener = socket.create_server(("127.0.0.1", 0))

    def drip():
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with contextlib.suppress(OSError), connection:
                    connection.send(b"\x16\x03\x03\x40\x00")  # a record of 16 kB is to come
                    for _ in range(100):
                        connection.send(b"\x02")
                        time.sleep(0.02)

    threading.Thread(target=drip, daemon=True).start()
    url = f"https://127.0.0.1:{listener.getsockname()[1]}/predict"
    began = time.monotonic()
    with pytest.raises(InvalidModel, match="gives no answer within"):
        Endpoint(url, timeout=0.3, retries=0)(x)
    assert time.monotonic() - began < 1.3
    listener.close()


@pytest.mark.parametrize(
    ("url", "words"),
    [
        *((f"http://{name}", "not an address") for name in ("", ":80/", "host:99999/", "[::1/")),
        *((f"http://{name}", "not an address") for name in ("höst/", "h/a b", "h/\n", "h/\x1b")),
        ("http://user:secret@host/", "in a header"),
    ],
)
def test_a_bad_address_is_refused(url, words):
    with pytest.raises(InvalidSettings, match=words) as caught:
        Endpoint(url)
    assert "secret" not in str(caught.value)
    with pytest.raises(InvalidModel, match="cannot be reached"):
        Endpoint("http://127.0.0.1:9/predict", retries=1)(np.ones((1, 1)))


def test_original_columns_are_sent_as_objects(server, rng):
    table = pa.table({"age": rng.integers(18, 80, 40), "job": ["cook", "judge"] * 20})

    def behave(handler, rows):
        handler.answer([0.9 if row["job"] == "judge" else row["age"] / 100 for row in rows])

    server.behave = behave
    encoder = Encoder.fit(table)
    people = AuditData(encoder.encode(table), np.zeros(40), table=table, encoder=encoder)
    model, _ = adapt(quick(server), people, columns=("job", "age"))
    out = model(encoder.encode(table))[:, 0]
    expected = np.where(np.arange(40) % 2, 0.9, table["age"].to_numpy() / 100)
    assert np.allclose(out, expected, atol=1e-12)


SECRET = "s3cr3t-k3y"


@pytest.mark.parametrize(
    "behave",
    [
        *(answer({}, 500), answer(b"<html>"), answer([0.5] * 7), answer(b" " * 20_000)),
        answer({}, 302, Location=f"http://example.org/?k={SECRET}"),
    ],
)
def test_a_key_in_the_address_is_sent_and_never_said(behave, server, x, monkeypatch):
    import likewise.models.endpoint as module

    monkeypatch.setattr(module, "CLASSES", 1)
    server.behave = behave
    endpoint = Endpoint(f"{server.url}?api_key={SECRET}", retries=1)
    with pytest.raises(InvalidModel) as caught:
        endpoint(x)
    assert SECRET not in str(caught.value) + repr(endpoint) + endpoint.address
    assert endpoint.address.startswith(f"{server.url}?sha256=")
    with pytest.raises(InvalidSettings) as refused:
        Endpoint(f"ftp://host/?api_key={SECRET}")
    assert SECRET not in str(refused.value)


@pytest.mark.slow
@pytest.mark.parametrize("late", [True, False])
def test_an_endpoint_that_changes_during_the_audit_gives_no_result_to_use(late, server, rng):
    import likewise

    x = rng.normal(size=(60, 3))
    asked = iter(range(10**6))

    def behave(handler, rows):
        drift = 0.2 if late and next(asked) > 12 else 0.0
        handler.answer([0.3 + 0.4 * (row[0] > 0) + drift for row in rows])

    server.behave = behave
    people = AuditData.from_arrays(x, x[:, 0] > 0, {"g": x[:, 1] > 0})
    model = as_model(Endpoint(server.url), classes=(False, True))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = likewise.audit(model, people, checks="core", executor=Threads(1))
    changed = [why for why in result.record.causes if "changed during the audit" in why]
    assert bool(changed) is late
    assert (result.verdict == "invalid") is late
