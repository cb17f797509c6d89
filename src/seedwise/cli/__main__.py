"""``python -m seedwise.cli``."""

from seedwise.cli import main

if __name__ == "__main__":  # processes that an engine starts import this module too
    main()
