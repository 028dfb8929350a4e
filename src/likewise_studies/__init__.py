"""The paper's studies, on the public API."""
