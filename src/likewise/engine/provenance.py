"""What an audit depends on, as hashes: the same identity, the same numbers."""

import importlib.metadata
from collections.abc import Sequence
from typing import Any

from likewise.choices import digest
from likewise.engine.plan import Plan
from likewise.engine.variants import Variant
from likewise.fingerprints import of_json
from likewise.metrics.saved import metric_fingerprint
from likewise.record import Record
from likewise.registry import MAPS

LIBRARIES = ("likewise", "numpy")


def identity_of(plan: Plan, variants: Sequence[Variant]) -> dict[str, str | int]:
    """Return what finished blocks depend on, by name: others cannot be continued."""
    card, address = plan.model.card, getattr(plan.handle.given, "url", "")
    versions = [f"{name} {importlib.metadata.version(name)}" for name in LIBRARIES]
    return {
        "settings": plan.settings.hash,
        "model": card.fingerprint or f"{card.kind} {address}".strip(),
        "metric": metric_fingerprint(plan.metric),
        "map": digest(plan.map),
        "data": plan.known.fingerprint,
        **plan.source.identity(),
        "variants": of_json([variant.name for variant in variants if variant.sample is None]),
        "versions": ", ".join(versions),
        "rows of a block": plan.block_size,
    }


def provenance_of(record: Record) -> dict[str, Any]:
    """Return what outcomes are signed with: hashes, and what shuffled traits gave."""
    map = record.decided_by.map
    goes_by_metric = map not in MAPS.built_in or getattr(MAPS.find(map), "goes_by_metric", False)
    gated = record.metric.learned and goes_by_metric
    shuffled = {name: found.p_value for name, found in record.placebo.items()}
    return {
        "placebo": shuffled if gated else None,
        "refitted": record.decided_by.metric == "refitted",
        "settings_hash": record.settings_hash,
        "model": record.model.sha256,
        "metric": record.metric.sha256,
        "data": record.data.sha256,
    }
