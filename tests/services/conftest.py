"""A model of a few thousand weights and runs on it, to be followed while they train."""

from trainer.conftest import make_run, model_folder, problems

__all__ = ["make_run", "model_folder", "problems"]
