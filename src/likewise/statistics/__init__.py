"""Sums that merge: all that tests, tables and bands need to know of any number of people."""
