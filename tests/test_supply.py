"""What CI installs is known by its hash."""

import re

PIN = re.compile(r"(?m)^([a-z0-9][a-z0-9._-]*==\S+)", re.IGNORECASE)


def test_every_pinned_version_has_the_hash_of_its_wheel(root):
    lock = (root / "requirements.lock").read_text(encoding="utf-8")
    constraints = (root / "constraints.txt").read_text(encoding="utf-8")
    assert sorted(PIN.findall(lock)) == sorted(PIN.findall(constraints))
    hashed = re.findall(r"(?m)^(\S+==\S+) \\\n    --hash=sha256:[0-9a-f]{64}$", lock)
    assert sorted(hashed) == sorted(PIN.findall(lock))
    assert any(pin.startswith("torch==") for pin in hashed)
