"""Sums become bytes and come back, and damaged bytes are refused in a sentence."""

import numpy as np
import pytest
from safetensors.numpy import save

from likewise.errors import InvalidFile
from likewise.packing import pack, unpack
from likewise.stats.sums import RatioSums


def test_arrays_of_every_kind_and_size_come_back_as_they_were():
    shared = {"frame": object()}
    value = {
        "odd": (np.array([True, False, True]), np.arange(6.0).reshape(2, 3).T),
        "none": [np.zeros((0, 4)), None, np.float64(0.1), shared["frame"]],
        7: RatioSums(np.array([np.inf, -0.0] * 5)),
        "names": np.array(["a", None, 3], dtype=object),
        "words": np.array(["a", "bc"]),
    }

    found = unpack(pack(value, shared), shared)

    assert found["none"][3] is shared["frame"]
    assert found["none"][1:3] == (None, 0.1)
    assert found["names"].tolist() == ["a", None, 3]
    assert found["words"].tolist() == ["a", "bc"]
    pairs = [*zip(found["odd"], value["odd"], strict=True), (found["none"][0], np.zeros((0, 4)))]
    for read, written in [*pairs, (found[7].sums, value[7].sums)]:
        assert read.dtype == written.dtype
        assert read.shape == written.shape
        assert read.tobytes() == written.tobytes()


@pytest.mark.parametrize(
    "described",
    [
        '{"array":"1"}',
        '{"same":"frame"}',
        '{"kind":"os:system","fields":{}}',
        '{"kind":"likewise.stats.sums:os","fields":{}}',
        '{"kind":"likewise.stats.sums:RatioSums","fields":{"command":"ls"}}',
        '{"kind":"likewise.stats.estimate:Estimate","fields":{"value":1,"std_error":1,"n":2}}',
        "[" * 10**5,
    ],
)
def test_what_is_no_value_is_refused(described):
    good = save({"0": np.zeros(3)}, {"value": described})
    for content in (good, good[:-1], b"", b"{}"):
        with pytest.raises(InvalidFile, match="damaged"):
            unpack(content, {})
