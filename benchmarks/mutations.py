"""Damage that knows the format: good files made hostile without ceasing to look like themselves."""

import copy
import io
import json
import random
import zipfile
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

MARK = "<img src=x onerror=alert(1)>"
NUMBERS = [
    *(0, -0.0, 1, -1, 2, 3, 0.5, 1e-300, 1e99, -1e99, 1e308, 2**31, 2**53 + 1, 2**63, -(2**63)),
    *(10**19, 10**400, float("nan"), float("inf"), -float("inf")),
]
TEXTS = [
    *("", " ", "0", "1e999", "NaN", "null", "=1+1", "@x", "+1", "-1", MARK, "{{7*7}}", "\x00"),
    *("\x1b[31m", "\x9b1m", "\u202e", "\r\n", "a" * 10_000, "../../nowhere/x", "ü" * 300, "🧨"),
]
LETTERS = b'\x00\xff"{}[],:=\n\r\t-0e9\\'


def hostile(rng: random.Random) -> Any:
    """Return a value that is seldom expected."""
    kind = rng.randrange(10)
    if kind < 4:
        return rng.choice(NUMBERS)
    if kind < 7:
        return rng.choice(TEXTS)
    if kind == 7:
        return rng.choice([None, True, False])
    if kind == 8:
        return rng.choice([[], {}, [[]], {"": {}}, [0] * 50, [None], [1, "a"], {"a": 1}])
    value: Any = 0
    for _ in range(rng.choice([3, 30, 150, 300])):
        value = [value] if rng.random() < 0.5 else {"a": value}
    return value


def places(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Return every container in a tree with every key in it."""
    stack = [tree]
    while stack:
        inner = stack.pop()
        keys = list(inner) if isinstance(inner, dict) else range(len(inner))
        for key in keys:
            yield inner, key
            if isinstance(inner[key], dict | list):
                stack.append(inner[key])


def tree(rng: random.Random, good: Any) -> Any:
    """Return a tree of JSON with one to four places changed."""
    found = copy.deepcopy(good)
    for _ in range(rng.choice([1, 1, 1, 2, 3, 4])):
        known = list(places(found))
        if not known:
            return hostile(rng)
        inner, key = rng.choice(known)
        _edit(rng, known, inner, key)
    return found


def _edit(rng: random.Random, known: list[tuple[Any, Any]], inner: Any, key: Any) -> None:
    kind = rng.randrange(9)
    value = inner[key]
    if kind == 0:
        del inner[key]
    elif kind == 1:
        other, place = rng.choice(known)
        inner[key] = _copied(other[place])
    elif kind == 2 and isinstance(inner, dict):
        inner[str(hostile(rng))[:50]] = inner.pop(key)
    elif kind == 3 and isinstance(inner, list):
        inner[key:key] = [_copied(value)] * rng.choice([1, 2, 100])
    elif kind == 4 and isinstance(value, str):
        inner[key] = text(rng, value)
    elif kind == 5 and isinstance(value, int | float):
        inner[key] = rng.choice([-value, value + 1, value - 1, value * 10**6, str(value), [value]])
    elif kind == 6 and isinstance(value, list):
        rng.shuffle(value)
    else:
        inner[key] = hostile(rng)


def _copied(value: Any) -> Any:
    """Return a copy; what was nested too deeply before to be copied is not nested again."""
    try:
        return copy.deepcopy(value)
    except RecursionError:
        return None


def text(rng: random.Random, good: str) -> str:
    """Return text with something put in, taken out or repeated."""
    at = rng.randrange(len(good) + 1)
    put = rng.choice([*TEXTS, good, str(rng.choice(NUMBERS))])[:1000]
    return rng.choice([good[:at] + put + good[at:], good[:at], good[at:], put, good * 2])


def octets(rng: random.Random, good: bytes) -> bytes:
    """Return bytes changed, cut off, put in or repeated."""
    content = bytearray(good)
    for _ in range(rng.randrange(6)):
        if content:
            value = rng.choice(LETTERS) if rng.random() < 0.5 else rng.randrange(256)
            content[rng.randrange(len(content))] = value
    at = rng.randrange(len(content) + 1)
    kind = rng.randrange(5)
    if kind == 0:
        content[at:at] = rng.randbytes(rng.randrange(9))
    elif kind == 1:
        content += content[at:]
    elif kind == 2:
        del content[at:]
    elif kind == 3:
        del content[at : at + rng.randrange(64)]
    return bytes(content)


def lines(rng: random.Random, good: str) -> bytes:
    """Return lines of names and values, some values changed or, now and then, the bytes."""
    if rng.random() < 0.3:
        return octets(rng, good.encode())
    found = good.split("\n")
    for _ in range(rng.choice([1, 1, 2, 4])):
        at = rng.randrange(len(found))
        name, mark, value = found[at].partition("=")
        words = value.split(" ")
        words[rng.randrange(len(words))] = str(rng.choice([*NUMBERS, *TEXTS]))[:1000]
        found[at : at + 1] = rng.choice([[name + mark + " ".join(words)], [], [found[at]] * 2])
    return "\n".join(found).encode("utf-8", "replace")


def json_file(rng: random.Random, good: Any) -> bytes:
    """Return the bytes of a JSON file, its tree changed or, now and then, its bytes."""
    if rng.random() < 0.15:
        return octets(rng, json.dumps(good).encode())
    return json.dumps(tree(rng, good)).encode("utf-8", "surrogatepass")


def toml_file(rng: random.Random, good: dict[str, Any]) -> bytes:
    """Return the bytes of a settings file, its choices changed or, now and then, its bytes."""
    changed = tree(rng, good)
    lines, sections = [], []
    for name, value in changed.items() if isinstance(changed, dict) else ():
        inner = value if isinstance(value, dict) else None
        if inner is None:
            lines.append(f"{name} = {_toml(value)}")
        else:
            sections += [f"[{name}]", *(f"{n} = {_toml(v)}" for n, v in inner.items())]
    content = "\n".join(lines + sections).encode("utf-8", "replace")
    return octets(rng, content) if rng.random() < 0.2 else content


def _toml(value: Any) -> str:
    if isinstance(value, float) and value in (float("inf"), -float("inf")):
        return str(value)
    return json.dumps(value).replace("NaN", "nan")


def safetensors_file(rng: random.Random, good: bytes) -> bytes:
    """Return a file of tensors with its header changed, its description, or its numbers."""
    if rng.random() < 0.2:
        return octets(rng, good)
    size = int.from_bytes(good[:8], "little")
    header, body = json.loads(good[8 : 8 + size]), good[8 + size :]
    kind = rng.randrange(4)
    if kind == 0:
        header = tree(rng, header)
    elif kind in (1, 2):
        key = rng.choice(list(header["__metadata__"]))
        inner = json.loads(header["__metadata__"][key])
        header["__metadata__"][key] = json.dumps(tree(rng, inner))
    else:
        numbers = np.frombuffer(body[: len(body) // 8 * 8], dtype=np.float64).copy()
        for _ in range(rng.randrange(1, 4)):
            numbers[rng.randrange(len(numbers))] = rng.choice([v for v in NUMBERS if v != 10**400])
        body = numbers.tobytes()
    written = json.dumps(header).encode()
    length = len(written) if rng.random() < 0.95 else rng.choice([0, 2**40, 2**63])
    return length.to_bytes(8, "little") + written + body


def zip_file(rng: random.Random, good: bytes) -> bytes:
    """Return an archive with one member changed: a tree of JSON, or an array's header or bytes."""
    if rng.random() < 0.2:
        return octets(rng, good)
    source = zipfile.ZipFile(io.BytesIO(good))
    members = {name: source.read(name) for name in source.namelist()}
    name = rng.choice(list(members))
    if name.endswith(".json"):
        members[name] = json_file(rng, json.loads(members[name]))
    elif name.endswith(".npy") and rng.random() < 0.7:
        shape = rng.choice([(10**9,), (2**40,), (0,), (3, 3), (-1,), ()])
        header = repr(
            {"descr": rng.choice(["<f8", "|O", "<i4"]), "fortran_order": False} | {"shape": shape}
        ).encode()
        header = header.ljust(118) + b"\n"
        members[name] = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header
    else:
        members[name] = octets(rng, members[name])
    if rng.random() < 0.1:
        members[rng.choice(["../x", "/etc/x", name + "2"])] = members[name]
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as target:
        for member, content in members.items():
            target.writestr(member, content)
    return sink.getvalue()


def message(rng: random.Random, good: Any) -> bytes:
    """Return a protocol buffer with one to three of its fields changed, deleted or repeated."""
    if rng.random() < 0.2:
        return octets(rng, good.SerializeToString())
    found = copy.deepcopy(good)
    for _ in range(rng.choice([1, 1, 2, 3])):
        inner = found
        while True:
            fields = inner.ListFields()
            if not fields:
                break
            field, value = rng.choice(fields)
            repeated = not isinstance(value, str | bytes | int | float) and hasattr(value, "append")
            if field.message_type is not None and rng.random() < 0.8:
                inner = rng.choice(list(value)) if repeated or hasattr(value, "add") else value
                continue
            _edit_field(rng, inner, field, value)
            break
    return found.SerializeToString()


OPERATORS = ["ConstantOfShape", "Expand", "Tile", "Loop", "If", "Scan", "RandomNormal", "Identity"]


def _edit_field(rng: random.Random, inner: Any, field: Any, value: Any) -> None:
    try:
        if rng.random() < 0.2:
            inner.ClearField(field.name)
        elif isinstance(value, str):
            setattr(inner, field.name, rng.choice([*OPERATORS, *TEXTS, value + "2"])[:200])
        elif isinstance(value, bytes):
            setattr(inner, field.name, octets(rng, value))
        elif isinstance(value, int | float):
            setattr(inner, field.name, rng.choice([0, 1, -1, 7, 10**6, 10**9, 2**31 - 1, 2**62]))
        elif field.message_type is not None:
            copies = [copy.deepcopy(part) for part in value]
            inner.ClearField(field.name)
            for part in rng.choice([copies * 2, copies[1:], copies[::-1]]):
                getattr(inner, field.name).add().CopyFrom(part)
        else:
            some = list(value)
            some[rng.randrange(len(some))] = rng.choice([0, 1, -1, 10**6, 10**9, "", b"", 0.5])
            inner.ClearField(field.name)
            getattr(inner, field.name).extend(some)
    except (TypeError, ValueError):  # a value that this field cannot hold
        inner.ClearField(field.name)


def table(rng: random.Random, good: pa.Table) -> pa.Table:
    """Return a table with columns dropped, doubled, renamed, of another type, or odd values."""
    columns = {name: good[name] for name in good.column_names}
    for _ in range(rng.choice([1, 1, 2, 3])):
        name = rng.choice(list(columns)) if columns else "a"
        column = columns.get(name, pa.chunked_array([pa.nulls(len(good))]))
        kind = rng.randrange(7)
        if kind == 0:
            columns.pop(name, None)
        elif kind == 1:
            columns[rng.choice([*TEXTS, *columns])[:300]] = column
        elif kind == 2:
            columns = {(rng.choice(TEXTS) if n == name else n): c for n, c in columns.items()}
        elif kind == 3:
            columns[name] = pa.chunked_array([_odd_column(rng, len(good))])
        else:
            values = column.to_pylist()
            for _ in range(rng.choice([1, 2, len(values)])):
                values[rng.randrange(len(values))] = rng.choice([None, hostile(rng), values[0]])
            columns[name] = pa.chunked_array([_array(values)])
    metadata = dict(good.schema.metadata or {})
    for key in metadata:
        if rng.random() < 0.5:
            metadata[key] = json_file(rng, json.loads(metadata[key]))
    return pa.table(columns).replace_schema_metadata(metadata)


def _array(values: list[Any]) -> pa.Array:
    try:
        return pa.array(values)
    except (pa.ArrowException, OverflowError, ValueError, UnicodeError):
        return pa.array([ascii(value)[:100] for value in values])


def _odd_column(rng: random.Random, n: int) -> pa.Array:
    return rng.choice(
        [
            pa.nulls(n),
            pa.array([0.0] * n, pa.float32()),
            pa.array([0] * n, pa.uint8()),
            pa.array([0] * n, pa.timestamp("us")),
            pa.array([0] * n, pa.duration("s")),
            pa.array([b"\xff"] * n),
            pa.array([[1]] * n),
            pa.array([{"a": 1}] * n),
            pa.array([True, False] * (n // 2) + [True] * (n % 2)),
            pa.array(["a"] * n).dictionary_encode(),
            pa.array([str(i) for i in range(n)]),
            pa.array([float("nan")] * n),
            pa.array([1e308] * n),
        ]
    )


def csv_file(rng: random.Random, good: str) -> bytes:
    """Return a table as text with cells, separators, quotes and lines changed."""
    lines = [line.split(",") for line in good.splitlines()]
    for _ in range(rng.choice([1, 1, 2, 4])):
        line = rng.choice(lines)
        kind = rng.randrange(6)
        if kind == 0:
            line.append(str(hostile(rng)))
        elif kind == 1 and line:
            line.pop()
        elif kind == 2:
            lines.insert(rng.randrange(len(lines)), list(line))
        elif line:
            line[rng.randrange(len(line))] = rng.choice(
                [*TEXTS, '"', "'", "1,5", "1.000,5", "a\nb"]
            )
    mark = rng.choice([",", ",", ",", ",", ";", "\t", "|"])
    end = rng.choice(["\n", "\n", "\r\n", "\r"])
    code = rng.choice(["utf-8", "utf-8", "utf-8", "utf-8-sig", "utf-16", "latin-1"])
    content = end.join(mark.join(line) for line in lines).encode(code, "replace")
    return octets(rng, content) if rng.random() < 0.2 else content
