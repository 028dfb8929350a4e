"""The command line: parse, call, print. The exit code is the verdict."""

from likewise.cli.app import app, main

__all__ = ["app", "main"]
