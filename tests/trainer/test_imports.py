"""The training stack starts without what it never uses, and nothing stays hidden."""

import subprocess
import sys

PROGRAM = """
import importlib.util, sys
from seedwise.trainer.imports import quick
with quick():
    import seedwise.trainer.run
print("sklearn" in sys.modules, "mlflow" in sys.modules)
print(importlib.util.find_spec("sklearn") is not None, importlib.util.find_spec("mlflow") is not None)
"""


def test_a_training_imports_neither_scikit_learn_nor_mlflow():
    found = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert found.stdout.split("\n")[:2] == ["False False", "True True"]
