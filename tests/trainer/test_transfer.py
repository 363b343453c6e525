"""Flat buffers over Mooncake on loopback: verified, chunked, and retired after a failure."""

import logging

import pytest
import torch

from trainers.cell.transfer import endpoint as transfer
from trainers.cell.transfer.endpoint import Endpoint, Landing, Publisher, Region, TransferFailed
from trainers.cell.transfer.slots import GradientSlots


@pytest.fixture(scope="module")
def two() -> tuple[Endpoint, Endpoint]:
    return Endpoint(), Endpoint()


def test_a_snapshot_is_pulled_whole_and_stays_as_it_was_published(
    two: tuple[Endpoint, Endpoint], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfer, "CHUNK_BYTES", 1000)
    core, satellite = two
    weights, steps = torch.randn(1234), torch.arange(77)
    publisher = Publisher(core, transfer.total_bytes([weights, steps]))
    sha256, manifest = publisher.snapshot([weights, steps])
    before = [weights.clone(), steps.clone()]
    weights.add_(1)
    landing = Landing(satellite, transfer.total_bytes(before))
    pulled = landing.pull(manifest["peer"], Region.from_json(manifest["region"]), sha256)
    assert all(torch.equal(a, b) for a, b in zip(transfer.unflatten(pulled, before), before, strict=True))
    second, other = publisher.snapshot([weights, steps])
    assert second != sha256
    assert other["region"] != manifest["region"]
    assert torch.equal(landing.pull(manifest["peer"], Region.from_json(manifest["region"]), sha256), pulled)


def test_another_hash_than_announced_is_refused(two: tuple[Endpoint, Endpoint]) -> None:
    core, satellite = two
    landing = Landing(core, 400)
    satellite_side = torch.ones(100)
    satellite._engine.register_memory(satellite_side.data_ptr(), satellite_side.nbytes)
    satellite.write(core.peer, landing.region, satellite_side)
    assert torch.equal(landing.take(transfer.sha256_of(satellite_side)).view(torch.float32), satellite_side)
    with pytest.raises(TransferFailed, match="instead of"):
        landing.take("0" * 64)


def test_a_buffer_is_never_used_again_after_a_failed_transfer(two: tuple[Endpoint, Endpoint]) -> None:
    _, satellite = two
    landing = Landing(satellite, 400)
    old = landing.region
    with pytest.raises(TransferFailed):
        landing.pull("127.0.0.1:1", Region(4096, 400), "0" * 64)
    assert landing.region.address != old.address
    assert landing.use == 2
    with pytest.raises(TransferFailed, match="has 8 bytes"):
        landing.pull("127.0.0.1:1", Region(4096, 8), "0" * 64)


def test_the_buffers_of_dead_epochs_serve_later_ones_and_their_uses_are_never_repeated(
    two: tuple[Endpoint, Endpoint],
) -> None:
    core, _ = two
    slots = GradientSlots(core, 400)
    uses: list[tuple[int, int]] = []
    for epoch in range(1, 51):
        live = [(1, epoch), (2, 7)]
        assert slots.provide(live, failed=[])
        uses += [(slot["address"], slot["use"]) for name, slot in slots.to_json().items() if name == f"1:{epoch}"]
        slots.release(live)
    assert len(set(uses)) == 50
    assert len({address for address, _ in uses}) == 2  # one in use, one of the epoch before it
    assert slots.find((1, 49), uses[-2][1]) is None
    assert slots.find((1, 50), uses[-1][1]) is not None


def test_a_slot_whose_write_failed_gets_another_buffer_once(two: tuple[Endpoint, Endpoint]) -> None:
    slots = GradientSlots(two[0], 400)
    slots.provide([(1, 1)], failed=[])
    before = slots.to_json()["1:1"]
    failed = [(1, 1, before["use"]), (1, 0, 1)]
    assert slots.provide([(1, 1)], failed)
    after = slots.to_json()["1:1"]
    assert (after["address"] != before["address"], after["use"]) == (True, before["use"] + 1)
    assert not slots.provide([(1, 1)], failed)


def test_open_listeners_and_a_silent_fallback_are_said_aloud(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfer, "rdma_devices", lambda: [])
    with caplog.at_level(logging.WARNING):
        Endpoint(protocol="rdma")
    assert "falls back to TCP" in caplog.text
    assert "all interfaces" in caplog.text
