"""One fingerprint: the same values, the same hash, however they are stored."""

import numpy as np
import pyarrow as pa
import pytest

from likewise.fingerprints import (
    SKETCH_SIZE,
    chunk_digests,
    hash_bytes,
    hash_json,
    hash_people,
    overlap,
    row_hashes,
    sketch_of,
)


def digest(column):
    return chunk_digests({"c": column}, [0, len(column)])[0]


SAME = [
    (np.array([1, 2]), np.array([1.0, 2.0], dtype=np.float32)),
    (np.array([0.0]), np.array([-0.0])),
    (np.array([np.nan, 1.0]), pa.array([None, 1], pa.int32())),
    (np.array(["a", None, "bé"], dtype=object), pa.array(["a", None, "bé"], pa.string())),
    (np.array(["a", "b"]), pa.chunked_array([["a"], ["b"]]).dictionary_encode()),
    (np.array([True, False]), pa.array([True, False])),
    (np.array([True, False]), pa.array([1, 0])),
    (np.array([2**60 + 1]), pa.array([2**60 + 1], pa.uint64())),
    (pa.array([None, None], pa.null()), np.array([np.nan, np.nan])),
]

OTHER = [
    (np.array([1.0, 2.0]), np.array([2.0, 1.0])),
    (np.array([1.0]), np.array([np.nextafter(1.0, 2.0)])),
    (np.array([2**60]), np.array([2**60 + 1])),
    (np.array(["ab", "c"]), np.array(["a", "bc"])),
    (np.array(["", "a"], dtype=object), np.array([None, "a"], dtype=object)),
    (np.array(["1"]), np.array([1])),
    (np.array(["ab"]), np.array(["ba"])),
]


@pytest.mark.parametrize(("one", "two"), SAME)
def test_how_a_column_is_stored_does_not_matter(one, two):
    assert digest(one) == digest(two)
    np.testing.assert_array_equal(row_hashes({"c": one}), row_hashes({"c": two}))


@pytest.mark.parametrize(("one", "two"), OTHER)
def test_any_other_value_is_another_fingerprint(one, two):
    assert digest(one) != digest(two)
    assert (row_hashes({"c": one}) != row_hashes({"c": two})).any()


def test_slices_have_the_digests_of_their_values(rng):
    table = {
        "x": pa.array(rng.normal(size=100)),
        "t": pa.array(rng.choice(["a", "bb", None], 100).tolist()),
    }
    parts = chunk_digests(table, [0, 30, 100])
    tail = {name: column.slice(30) for name, column in table.items()}
    assert parts[1] == chunk_digests(tail, [0, 70])[0]
    np.testing.assert_array_equal(row_hashes(table)[30:], row_hashes(tail))


def test_the_order_of_columns_does_not_matter_and_their_names_do(rng):
    a, b = rng.normal(size=(2, 10))
    assert chunk_digests({"a": a, "b": b}, [0, 10]) == chunk_digests({"b": b, "a": a}, [0, 10])
    assert chunk_digests({"a": a, "b": b}, [0, 10]) != chunk_digests({"a": b, "b": a}, [0, 10])
    np.testing.assert_array_equal(row_hashes({"a": a, "b": b}), row_hashes({"b": b, "a": a}))
    assert (row_hashes({"a": a, "b": b}) != row_hashes({"a": b, "b": a})).all()
    assert hash_people(["a", "b"], 2, [b"1"]) == hash_people(["b", "a"], 2, [b"1"])
    assert hash_people(["a"], 2, [b"1"]) != hash_people(["a"], 3, [b"1"])


def test_different_rows_have_different_hashes():
    # Two of 200 000 64-bit numbers agree once in 900 million such tests.
    n = 200_000
    columns = {"a": np.arange(n) % 1000, "b": np.arange(n) // 1000}
    assert len(np.unique(row_hashes(columns))) == n
    assert len(np.unique(row_hashes({"c": pa.array(np.arange(n)).cast(pa.string())}))) == n


def test_where_bytes_end_and_begin_matters_and_the_order_of_keys_does_not():
    assert hash_bytes(b"ab", b"c") != hash_bytes(b"a", b"bc")
    assert hash_json({"a": 1, "b": 0.1}) == hash_json({"b": 0.1, "a": 1})


def test_the_same_people_in_another_order_and_without_one_are_recognised(rng):
    x = rng.normal(size=(20_000, 3))
    some, hashes = rng.permutation(x)[1:], lambda x: row_hashes({f"x{j}": x[:, j] for j in (0, 1)})
    everyone, again = sketch_of(hashes(x)), sketch_of(hashes(some))
    assert overlap(again, everyone) == overlap(everyone, everyone) == 1
    assert overlap(everyone, again) > 0.99
    assert overlap(sketch_of(hashes(rng.normal(size=(500, 3)))), everyone) == 0


@pytest.mark.parametrize(("share", "times"), [(0.25, 1), (0.5, 1), (0.9, 1), (0.5, 10)])
def test_the_share_of_people_in_both_is_estimated(share, times):
    n = 50_000
    one = sketch_of(row_hashes({"x": np.arange(n)}))
    two = sketch_of(row_hashes({"x": np.arange(n * times) + round((1 - share) * n)}))
    # A simple sample of 4096 in ``times``: four standard errors, 1 alarm in 16 000.
    assert abs(overlap(one, two) - share) < 4 * 0.5 / np.sqrt(SKETCH_SIZE / times)
    few, some = (sketch_of(row_hashes({"x": np.arange(*ends)})) for ends in ((0, 100), (60, 160)))
    assert overlap(few, some) == 0.4


def test_sketches_of_parts_make_the_sketch_of_all(rng):
    hashes = row_hashes({"x": rng.normal(size=10_000)})
    hashes = np.concatenate([hashes, hashes[::3], hashes[:500]])
    parts = map(sketch_of, np.split(hashes, [10, 7000]))
    np.testing.assert_array_equal(sketch_of(*parts), sketch_of(hashes))
