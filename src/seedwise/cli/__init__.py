"""The ``seedwise`` command: importing a module of commands registers them, in the order of the help."""

from seedwise.cli.app import app, main  # before all others: it sets the number of threads

from seedwise.cli import pipeline, methods, reruns, doctor, comparisons  # isort: skip

__all__ = ["app", "comparisons", "doctor", "main", "methods", "pipeline", "reruns"]
