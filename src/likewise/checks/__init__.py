"""Questions beyond the verdict: how far it can be trusted, and what it depends on."""
