"""Evaluation: samples, scores, and the continuation experiment of the EAPO paper."""
