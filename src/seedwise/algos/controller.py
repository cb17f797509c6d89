"""A controller for K: QAE's level as the actuator that holds the policy's entropy or the gradient's variance."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from seedwise.algos.baseline import Level
from seedwise.algos.part import Horizon, Part
from seedwise.algos.views import GroupView

Signal = Literal["entropy", "gradient_variance"]


class AdaptiveK(Part):
    """A proportional-integral controller that holds a signal of the training: below the target, K rises.

    Once per rollout at which the signal is H:
    ``Hbar <- smoothing Hbar + (1 - smoothing) H``, the first H starting it;
    ``e = clip((target - Hbar) / target, -1, 1)``, 0 where ``|e| < dead_band``;
    ``E <- leak E + e``, a leaky integral; ``K <- clip(K + kp e + ki E, lowest, highest)``.
    Anti-windup: where K would leave its bounds on the side to which e pushes, E stays as it was; it
    is free again as soon as e turns. Experimental: a design of this project's own.

    K: of the first rollouts.
    signal: ``entropy``, the policy's mean over all response tokens of the rollout, nats; ``gradient_variance``, the
        variance of the gradient norms of the last optimizer steps over their squared mean, without unit: undefined
        below 5 steps and where no step has a gradient, and K waits. A policy that explodes raises both.
    target: of the signal; null learns it, as the mean H of rollouts ``first`` to ``last`` (1-based, of those with a
        signal), and K waits until then.
    kp, ki: change of K per unit of e and of E.
    state: ``K``, ``Hbar``, ``E``, ``target``, ``rollouts`` with a signal, ``sum`` of the H that make the target.
    """

    horizon: ClassVar[Horizon] = "rollout"
    experimental: ClassVar[bool] = True
    kind: Literal["adaptive"] = "adaptive"
    K: Level = 0.4
    target: float | None = Field(default=None, gt=0)
    kp: float = Field(default=0.05, ge=0)
    ki: float = Field(default=0.005, ge=0)
    leak: float = Field(default=0.9, ge=0, le=1)
    dead_band: float = Field(default=0.05, ge=0, lt=1)
    smoothing: float = Field(default=0.9, ge=0, lt=1)
    lowest: Level = 0.2
    highest: Level = 0.8
    signal: Signal = "entropy"
    first: int = Field(default=5, gt=0)
    last: int = Field(default=15, gt=0)

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        in_order(self.lowest, self.highest)
        if not self.lowest <= self.K <= self.highest:
            raise ValueError(f"K {self.K} lies outside {self.lowest} .. {self.highest}: move it or lowest and highest")
        if self.first > self.last:
            raise ValueError(f"first {self.first} comes after last {self.last}: no rollout would make the target")
        return self

    @property
    def needs(self) -> frozenset[str]:
        """What the signal is made of."""
        return frozenset({"entropy" if self.signal == "entropy" else "gradient_norms"})

    def start(self) -> dict:
        """K as configured, nothing measured."""
        return {"K": self.K, "Hbar": None, "E": 0.0, "target": self.target, "rollouts": 0, "sum": 0.0}

    def at(self, view: GroupView, state: dict) -> float:
        """K of the rollout; moves the controller. Raises ValueError without the signal, or with a target of 0."""
        value = self.measured(view)
        if value is None:
            return state["K"]
        state["rollouts"] += 1
        state["Hbar"] = smoothed(state["Hbar"], value, self.smoothing)
        if state["target"] is not None:
            self._steer(state)
        elif self.first <= state["rollouts"] <= self.last:
            state["sum"] += value
            if state["rollouts"] == self.last:
                state["target"] = self._learned(state["sum"])
        return state["K"]

    def measured(self, view: GroupView) -> float | None:
        """The signal at a rollout, None where it is undefined. Raises ValueError where the view lacks it."""
        if self.signal == "entropy" and view.entropy is not None:
            return view.entropy
        if self.signal == "gradient_variance" and view.gradient_norms is not None:
            return relative_variance(view.gradient_norms)
        raise ValueError(f"an adaptive K needs {' and '.join(self.needs)} in its view")

    def _learned(self, total: float) -> float:
        if total <= 0:
            signal, unit = {
                "entropy": ("entropy", ", in nats"),
                "gradient_variance": ("gradient variance", ""),
            }[self.signal]
            raise ValueError(f"rollouts {self.first} to {self.last} have no {signal} to hold: set target{unit}")
        return total / (self.last - self.first + 1)

    def _steer(self, state: dict) -> None:
        error = within((state["target"] - state["Hbar"]) / state["target"], -1.0, 1.0)
        error = 0.0 if abs(error) < self.dead_band else error
        integral = self.leak * state["E"] + error
        wanted = state["K"] + self.kp * error + self.ki * integral
        if (wanted > self.highest and error > 0) or (wanted < self.lowest and error < 0):
            integral = state["E"]
            wanted = state["K"] + self.kp * error + self.ki * integral
        state["E"], state["K"] = integral, within(wanted, self.lowest, self.highest)


def relative_variance(norms: Sequence[float], least: int = 5) -> float | None:
    """Sample variance over the squared mean, without unit; None below ``least`` norms or where all are 0."""
    if len(norms) < least or (mean := statistics.fmean(norms)) == 0:
        return None
    return statistics.variance(norms, mean) / mean**2


def smoothed(before: float | None, now: float, decay: float) -> float:
    """An exponential mean one value on; the first value starts it."""
    return now if before is None else decay * before + (1 - decay) * now


def within(value: float, lowest: float, highest: float) -> float:
    """The value, or the bound it is beyond."""
    return min(max(value, lowest), highest)


def in_order(lowest: float, highest: float) -> None:
    """Raise ValueError for bounds that are exchanged."""
    if lowest > highest:
        raise ValueError(f"lowest {lowest} is above highest {highest}: exchange them")
