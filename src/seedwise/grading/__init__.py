"""Grading: what is the answer (policy), is it right (verify), in processes that can be killed (pool)."""

from seedwise.grading.verify import Verdict

__all__ = ["Verdict"]
