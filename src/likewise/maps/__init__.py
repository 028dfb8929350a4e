"""Unfair maps: where the worst similar person is."""
