"""trainers.core.loss: sums that do not depend on packing, checked against scalar formulas (docs/algorithms.md §8)."""

import math
from typing import get_args

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from trainers.core.loss import LossKind, LossMetrics, LossSettings, token_loss

pytestmark = pytest.mark.usefixtures("one_torch_thread")
KINDS: list[LossKind] = list(get_args(LossKind))

targets = st.tuples(
    st.floats(-5, -0.01),  # trainer's log-probability
    st.floats(-5, -0.01),  # behaviour log-probability
    st.sampled_from([-1.5, -0.3, 0.0, 0.7, 2.0]),  # advantage of the call's execution
    st.sampled_from([1.0, 0.5, 0.125]),  # 1/T(e)
)


@st.composite
def batches(draw: st.DrawFn) -> list[tuple[float, float, float, float, int]]:
    """Targets by call; a call has one execution, hence one advantage and one weight."""
    rows = []
    for call in range(draw(st.integers(1, 4))):
        _, _, advantage, weight = draw(targets)
        for lp, behaviour, _, _ in draw(st.lists(targets, min_size=1, max_size=5)):
            rows.append((lp, behaviour, advantage, weight, call))
    return rows


def run(rows: list[tuple[float, float, float, float, int]], settings: LossSettings):
    columns = list(zip(*rows, strict=True)) if rows else [()] * 5
    lp = torch.tensor(columns[0], dtype=torch.float64, requires_grad=True)
    behaviour, advantage, weight = (torch.tensor(c, dtype=torch.float64) for c in columns[1:4])
    loss, metrics = token_loss(lp, behaviour, advantage, weight, torch.tensor(columns[4], dtype=torch.int32), settings)
    loss.backward()
    assert lp.grad is not None
    return float(loss.detach()), lp.grad.tolist(), metrics


def clip(ratio: float, settings: LossSettings) -> float:
    return min(max(ratio, 1 - settings.clip_low), 1 + settings.clip_high)


def by_hand(rows: list[tuple[float, float, float, float, int]], settings: LossSettings) -> tuple[float, list[float]]:
    """Loss and d loss / d lp, target by target."""
    loss, gradient = 0.0, []
    for lp, behaviour, advantage, weight, call in rows:
        ratio = math.exp(lp - behaviour)
        if settings.kind == "ppo_clip":
            w = min(ratio, settings.tis_cap)
            loss += weight * -w * advantage
            gradient.append(weight * -w * advantage)
        elif settings.kind in ("cispo", "reinforce_is"):
            cap = 1 + settings.clip_high if settings.kind == "cispo" else settings.tis_cap
            loss += weight * -min(ratio, cap) * advantage * lp
            gradient.append(weight * -min(ratio, cap) * advantage)
        else:
            assert settings.kind in ("ppo_clip_behaviour", "gspo"), f"say here what {settings.kind} is"
            if settings.kind == "gspo":
                gaps = [row[0] - row[1] for row in rows if row[4] == call]
                ratio = math.exp(sum(gaps) / len(gaps))
            free, bounded = ratio * advantage, clip(ratio, settings) * advantage
            loss += weight * -min(free, bounded)
            gradient.append(weight * -advantage * ratio if free <= bounded else 0.0)
    return loss, gradient


@pytest.mark.parametrize("kind", KINDS)
@given(rows=batches())
def test_loss_and_gradient_are_those_of_the_formula(kind: LossKind, rows) -> None:
    settings = LossSettings(kind)
    loss, gradient, metrics = run(rows, settings)
    expected_loss, expected_gradient = by_hand(rows, settings)
    assert loss == pytest.approx(expected_loss, rel=1e-9, abs=1e-9)
    assert gradient == pytest.approx(expected_gradient, rel=1e-9, abs=1e-9)
    assert metrics.num_targets == len(rows)


@pytest.mark.parametrize("kind", KINDS)
@given(rows=batches(), data=st.data())
def test_splitting_a_batch_between_micro_steps_changes_neither_gradient_nor_metrics(
    kind: LossKind, rows, data: st.DataObject
) -> None:
    settings = LossSettings(kind)
    loss, gradient, metrics = run(rows, settings)
    first_calls = data.draw(st.integers(0, 4))
    parts = [[r for r in rows if r[4] < first_calls], [r for r in rows if r[4] >= first_calls]]
    done = [run(part, settings) for part in parts]
    assert sum(d[0] for d in done) == pytest.approx(loss, rel=1e-9, abs=1e-9)
    assert done[0][1] + done[1][1] == pytest.approx(gradient, rel=1e-9, abs=1e-9)
    total = done[0][2] + done[1][2]
    assert total.to_json() == pytest.approx(metrics.to_json(), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_a_micro_step_without_targets_gives_zero_and_can_be_differentiated(kind: LossKind) -> None:
    loss, gradient, metrics = run([], LossSettings(kind))
    assert loss == 0.0
    assert gradient == []
    assert metrics == LossMetrics()


@given(rows=batches())
def test_the_clip_of_ppo_clip_is_inert_and_reported_so(rows) -> None:
    _, _, metrics = run(rows, LossSettings("ppo_clip"))
    assert metrics.num_clipped == 0
    assert metrics.summary("ppo_clip", 2)["clip_inert"] is True


@pytest.mark.parametrize("kind", KINDS)
def test_a_huge_ratio_stays_finite(kind: LossKind) -> None:
    loss, gradient, _ = run([(-0.1, -1e4, 1.0, 1.0, 0), (-1e4, -0.1, -1.0, 1.0, 1)], LossSettings(kind))
    assert math.isfinite(loss)
    assert all(math.isfinite(g) for g in gradient)


def test_metrics_survive_json() -> None:
    metrics = LossMetrics(3, -0.5, 1, 0, 0.25, 0.2)
    assert LossMetrics.from_json(metrics.to_json()) == metrics
