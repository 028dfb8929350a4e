"""Are a stranger's boosted trees trees? Their libraries follow whatever the file says."""

import json

import numpy as np
from jaxtyping import Int

from likewise.errors import InvalidFile


def check_xgboost(content: bytes) -> None:
    """Refuse trees of XGBoost that are none."""
    import xgboost

    booster = xgboost.Booster(model_file=bytearray(content))
    learner = json.loads(bytes(booster.save_raw("json")))["learner"]
    inner, about = learner["gradient_booster"], learner["learner_model_param"]
    model = inner.get("gbtree", inner)["model"]  # DART has them one floor below
    kinds = max(int(about["num_class"]), 1) * max(int(about["num_target"]), 1)
    trees, rounds = model.get("trees", []), model.get("iteration_indptr", [0])
    _must(all(0 <= kind < kinds for kind in model.get("tree_info", [])))
    _must(rounds[:1] == [0] and sorted(rounds) == rounds and rounds[-1] <= len(trees))
    for tree in trees:
        left = np.array(tree["left_children"], dtype=np.int64)
        right = np.where(left == -1, -1, np.array(tree["right_children"], dtype=np.int64))
        _must(min(left.min(), right.min()) >= -1 and bool(((left == -1) == (right == -1)).all()))
        inside = left != -1
        feature = np.where(inside, np.array(tree["split_indices"], dtype=np.int64), 0)
        _follow(left, right, feature, booster.num_features())
        ends = np.add(tree["categories_segments"], tree["categories_sizes"])
        _must((ends <= len(tree["categories"])).all())


def check_lightgbm(content: bytes) -> None:
    """Refuse trees of LightGBM that are none."""
    head, *trees = content.decode().split("\nTree=")
    most = int(head.partition("\nmax_feature_idx=")[2].split()[0])
    for tree in trees:
        lines = dict(line.partition("=")[::2] for line in tree.splitlines())
        leaves = int(lines["num_leaves"])
        if leaves < 2:
            continue
        numbers = {name: value.split() for name, value in lines.items()}
        inner = ("left_child", "right_child", "split_feature", "threshold", "decision_type")
        _must({len(numbers[name]) for name in inner} == {leaves - 1})
        _must(len(numbers["leaf_value"]) == leaves)
        left, right, feature = (np.array(numbers[name], dtype=np.int64) for name in inner[:3])
        _must(min(left.min(), right.min()) >= -leaves)  # leaves are numbered from -1 downwards
        _follow(left, right, feature, most + 1)


def _follow(
    left: Int[np.ndarray, " n"],
    right: Int[np.ndarray, " n"],
    feature: Int[np.ndarray, " n"],
    n_features: int,
) -> None:
    """Walk down from the root, floor by floor; there is one way to every node."""
    seen, floor = np.zeros(len(left), dtype=bool), np.zeros(1, dtype=np.int64)
    while len(floor):
        seen[floor] = True
        _must(((feature[floor] >= 0) & (feature[floor] < n_features)).all())
        below = np.concatenate([left[floor], right[floor]])
        floor = below[below >= 0]
        _must(bool((floor < len(left)).all()) and len(np.unique(floor)) == len(floor))
        _must(not seen[floor].any())


def _must(hold: object) -> None:
    if not hold:
        raise InvalidFile("a branch leads nowhere, or in a circle, or to a feature there is not")
