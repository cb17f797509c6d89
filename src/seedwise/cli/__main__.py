"""``python -m seedwise.cli``."""

from seedwise.cli import main

main()
