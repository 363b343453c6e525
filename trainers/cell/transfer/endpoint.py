"""Flat buffers over Mooncake's transfer engine (docs/cells.md, docs/architecture.md "Listeners").

Weights are *pulled*: the core registers a snapshot and publishes its address table and hash. Gradients are *written* by
a satellite into its own slot in the core's memory. Rules that follow from the library:

* after a transfer that failed or timed out, bytes may still land later: the local buffer is retired, never used again;
* what arrives is used only after its SHA-256 agrees;
* its two listeners bind all interfaces, and `rdma` without a device silently becomes TCP: both are said aloud.

Run here over TCP on loopback. RDMA has not been run.
"""

import hashlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

log = logging.getLogger("gyre.transfer")

CHUNK_BYTES = 64 << 20
SNAPSHOTS = 2


class TransferFailed(RuntimeError):
    """The peer is gone, slow, or sent something else than it announced. The landing buffer was retired."""


@dataclass(frozen=True)
class Region:
    """Registered memory of one process, addressable by its peers."""

    address: int
    num_bytes: int

    def to_json(self) -> dict[str, int]:
        return {"address": self.address, "num_bytes": self.num_bytes}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "Region":
        return cls(int(values["address"]), int(values["num_bytes"]))


def as_bytes(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().reshape(-1).view(torch.uint8)


def sha256_of(tensor: torch.Tensor) -> str:
    return hashlib.sha256(as_bytes(tensor).cpu().numpy().data).hexdigest()


def rdma_devices() -> list[str]:
    folder = Path("/sys/class/infiniband")
    return sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []


class Endpoint:
    """This process's transfer engine. `peer` is what others need to reach it."""

    def __init__(self, host: str = "127.0.0.1", protocol: str = "tcp", devices: str = "") -> None:
        from mooncake.engine import TransferEngine

        if protocol == "rdma" and not rdma_devices():
            log.warning("transfer: rdma was asked for, but this machine has no RDMA device: Mooncake falls back to TCP")
        self._engine = TransferEngine()
        if self._engine.initialize(host, "P2PHANDSHAKE", protocol, devices) != 0:
            raise TransferFailed(f"the transfer engine could not start on {host} with {protocol}")
        self.peer = f"{host}:{self._engine.get_rpc_port()}"
        log.warning(
            "transfer: Mooncake listens on all interfaces of this machine (port %s and a data port); "
            "keep them behind a firewall",
            self._engine.get_rpc_port(),
        )
        self._registered: list[torch.Tensor] = []

    def register(self, buffer: torch.Tensor) -> Region:
        """Make `buffer` (contiguous) readable and writable by peers, for the life of this process."""
        region = Region(buffer.data_ptr(), buffer.nbytes)
        if self._engine.register_memory(region.address, region.num_bytes) != 0:
            raise TransferFailed(f"{region.num_bytes} bytes could not be registered")
        self._registered.append(buffer)
        return region

    def read(self, peer: str, remote: Region, into: torch.Tensor) -> None:
        """Raises TransferFailed; then `into` must never be used again."""
        self._move(self._engine.transfer_sync_read, peer, remote, into)

    def write(self, peer: str, remote: Region, source: torch.Tensor) -> None:
        """Raises TransferFailed; then the remote region must never be used again."""
        self._move(self._engine.transfer_sync_write, peer, remote, source)

    @staticmethod
    def _move(transfer: Any, peer: str, remote: Region, local: torch.Tensor) -> None:
        if local.nbytes != remote.num_bytes:
            raise TransferFailed(f"the peer's region has {remote.num_bytes} bytes, ours {local.nbytes}")
        for start in range(0, remote.num_bytes, CHUNK_BYTES):
            size = min(CHUNK_BYTES, remote.num_bytes - start)
            status = transfer(peer, local.data_ptr() + start, remote.address + start, size)
            if status != 0:
                raise TransferFailed(f"transfer with {peer} failed with status {status}")


class Landing:
    """A registered buffer that transfers land in; replaced after a failure."""

    def __init__(self, endpoint: Endpoint, num_bytes: int) -> None:
        self._endpoint = endpoint
        self._num_bytes = num_bytes
        self.use = 0
        self.renew()

    def renew(self) -> None:
        """Take a new buffer. The old one stays allocated, since late bytes may land in it."""
        self.buffer = torch.empty(self._num_bytes, dtype=torch.uint8)
        self.region = self._endpoint.register(self.buffer)
        self.use += 1

    def pull(self, peer: str, remote: Region, sha256: str) -> torch.Tensor:
        """Read and verify; the result is a copy. Raises TransferFailed."""
        try:
            self._endpoint.read(peer, remote, self.buffer)
        except TransferFailed:
            self.renew()
            raise
        return self.take(sha256)

    def take(self, sha256: str) -> torch.Tensor:
        """A private copy of what landed, verified. Raises TransferFailed."""
        copy = self.buffer.clone()
        if (found := sha256_of(copy)) != sha256:
            raise TransferFailed(f"hash {found[:12]}… instead of {sha256[:12]}…")
        return copy


def flatten(buffers: Sequence[torch.Tensor], out: torch.Tensor) -> None:
    """Copy all buffers, one after the other, into `out` (bytes)."""
    torch.cat([as_bytes(buffer) for buffer in buffers], out=out)


def unflatten(flat: torch.Tensor, like: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Views of `flat` (bytes) with the dtypes and lengths of `like`."""
    parts = flat.split([buffer.nbytes for buffer in like])
    return [part.view(buffer.dtype) for part, buffer in zip(parts, like, strict=True)]


def total_bytes(buffers: Sequence[torch.Tensor]) -> int:
    return sum(buffer.nbytes for buffer in buffers)


class Publisher:
    """The core's snapshots. Two take turns, so that a pull in progress survives one publication."""

    def __init__(self, endpoint: Endpoint, num_bytes: int) -> None:
        self._endpoint = endpoint
        self._buffers = [torch.empty(num_bytes, dtype=torch.uint8) for _ in range(SNAPSHOTS)]
        self._regions = [endpoint.register(buffer) for buffer in self._buffers]
        self._turn = 0

    def snapshot(self, buffers: Sequence[torch.Tensor]) -> tuple[str, dict[str, Any]]:
        """Copy `buffers`; returns the hash and the manifest that lets others pull the copy."""
        self._turn = (self._turn + 1) % SNAPSHOTS
        flatten(buffers, self._buffers[self._turn])
        region = self._regions[self._turn].to_json()
        return sha256_of(self._buffers[self._turn]), {"peer": self._endpoint.peer, "region": region}
