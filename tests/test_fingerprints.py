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


@pytest.mark.parametrize(
    ("one", "two", "same"),
    [
        (np.array([1, 2]), np.array([1.0, 2.0], dtype=np.float32), True),
        (np.array([0.0]), np.array([-0.0]), True),
        (np.array([np.nan, 1.0]), pa.array([None, 1], pa.int32()), True),
        (np.array(["a", None, "bé"], dtype=object), pa.array(["a", None, "bé"]), True),
        (np.array(["a", "b"]), pa.chunked_array([["a"], ["b"]]).dictionary_encode(), True),
        (np.array([True, False]), pa.array([True, False]), True),
        (np.array([True, False]), pa.array([1, 0]), True),
        (np.array([2**60 + 1]), pa.array([2**60 + 1], pa.uint64()), True),
        (pa.array([None, None], pa.null()), np.array([np.nan, np.nan]), True),
        (np.array([1.0, 2.0]), np.array([2.0, 1.0]), False),
        (np.array([1.0]), np.array([np.nextafter(1.0, 2.0)]), False),
        (np.array([2**60]), np.array([2**60 + 1]), False),
        (np.array(["ab", "c"]), np.array(["a", "bc"]), False),
        (np.array(["", "a"], dtype=object), np.array([None, "a"], dtype=object), False),
        (np.array(["1"]), np.array([1]), False),
        (np.array(["ab"]), np.array(["ba"]), False),
    ],
)
def test_the_values_of_a_column_make_its_fingerprint_and_not_how_it_is_stored(one, two, same):
    columns = {"c": one}, {"c": two}
    digests = [chunk_digests(column, [0, len(one)]) for column in columns]
    assert (digests[0] == digests[1]) == same
    assert np.array_equal(*map(row_hashes, columns)) == same


def test_slices_have_the_digests_of_their_values(rng):
    texts = pa.array(rng.choice(["a", "bb", None], 100).tolist())
    table = {"x": pa.array(rng.normal(size=100)), "t": texts}
    parts = chunk_digests(table, [0, 30, 100])
    tail = {name: column.slice(30) for name, column in table.items()}
    assert parts[1] == chunk_digests(tail, [0, 70])[0]
    np.testing.assert_array_equal(row_hashes(table)[30:], row_hashes(tail))


def test_the_order_of_columns_does_not_matter_and_their_names_do(rng):
    a, b = rng.normal(size=(2, 10))
    given, turned, swapped = {"a": a, "b": b}, {"b": b, "a": a}, {"a": b, "b": a}
    assert chunk_digests(given, [0, 10]) == chunk_digests(turned, [0, 10])
    assert chunk_digests(given, [0, 10]) != chunk_digests(swapped, [0, 10])
    np.testing.assert_array_equal(row_hashes(given), row_hashes(turned))
    assert (row_hashes(given) != row_hashes(swapped)).all()
    assert hash_json({"a": 1, "b": 0.1}) == hash_json({"b": 0.1, "a": 1})
    assert hash_people(["a", "b"], 2, {0: b"1"}) == hash_people(["b", "a"], 2, {0: b"1"})
    assert hash_people(["a"], 2, {0: b"1"}) != hash_people(["a"], 3, {0: b"1"})


def test_different_rows_and_bytes_that_end_elsewhere_have_different_hashes():
    assert hash_bytes(b"ab", b"c") != hash_bytes(b"a", b"bc")
    # Two of 200 000 64-bit numbers agree once in 900 million such tests.
    n = 200_000
    columns = {"a": np.arange(n) % 1000, "b": np.arange(n) // 1000}
    assert len(np.unique(row_hashes(columns))) == n
    assert len(np.unique(row_hashes({"c": pa.array(np.arange(n)).cast(pa.string())}))) == n


def test_the_same_people_in_another_order_and_without_one_are_recognised(rng):
    x = rng.normal(size=(20_000, 3))
    some, hashes = rng.permutation(x)[1:], lambda x: row_hashes({f"x{j}": x[:, j] for j in (0, 1)})
    everyone, again = sketch_of(hashes(x)), sketch_of(hashes(some))
    assert overlap(again, everyone) == overlap(everyone, everyone) == 1
    assert overlap(everyone, again) > 0.99
    assert overlap(sketch_of(hashes(rng.normal(size=(500, 3)))), everyone) == 0
    # Sketches of parts make the sketch of all.
    some = np.concatenate([hashes(x), hashes(x)[::3], hashes(x)[:500]])
    parts = map(sketch_of, np.split(some, [10, 7000]))
    np.testing.assert_array_equal(sketch_of(*parts), sketch_of(some))


@pytest.mark.parametrize(("share", "times"), [(0.25, 1), (0.5, 1), (0.9, 1), (0.5, 10)])
def test_the_share_of_people_in_both_is_estimated(share, times):
    n = 50_000
    one = sketch_of(row_hashes({"x": np.arange(n)}))
    two = sketch_of(row_hashes({"x": np.arange(n * times) + round((1 - share) * n)}))
    # A simple sample of 4096 in ``times``: four standard errors, 1 alarm in 16 000.
    assert abs(overlap(one, two) - share) < 4 * 0.5 / np.sqrt(SKETCH_SIZE / times)
    few, some = (sketch_of(row_hashes({"x": np.arange(*ends)})) for ends in ((0, 100), (60, 160)))
    assert overlap(few, some) == 0.4
