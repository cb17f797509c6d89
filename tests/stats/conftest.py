import json
from decimal import Decimal
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parents[1] / "golden" / "statistics.json"


class Golden:
    """Cases of golden/statistics.json by number; values are printed to 10 digits."""

    def __init__(self) -> None:
        self.cases = json.loads(GOLDEN.read_text())

    def __getitem__(self, number: str) -> dict:
        (name,) = (name for name in self.cases if name.split()[0] == number)
        return self.cases[name]

    @staticmethod
    def printed(value: float) -> object:
        """Equal to the digits printed: 1e-9 relative, or half a unit of the last of 10 decimals."""
        last = Decimal(repr(value)).as_tuple().exponent
        return pytest.approx(value, rel=1e-9, abs=min(0.5 * 10.0**last, 5.1e-11))


@pytest.fixture(scope="session")
def golden() -> Golden:
    return Golden()
