"""Moves blocks of people anywhere, adds up what became of them, and writes the record."""
