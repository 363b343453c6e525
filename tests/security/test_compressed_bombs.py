"""A small body that unpacks to a huge one, or asks its reader for much work or memory, is refused within bounds."""

import gzip
import tracemalloc
import zlib
from collections.abc import Callable

import pytest
import zstandard

from agents.proxy.encodings import Undecodable, decoded

LIMIT = 1024 * 1024
ZEROS = bytes(64 * LIMIT)
PACKERS = {"gzip": gzip.compress, "deflate": zlib.compress, "zstd": zstandard.compress}


@pytest.mark.parametrize("name", PACKERS)
def test_a_bomb_is_refused_before_it_has_unpacked(name: str) -> None:
    bomb = PACKERS[name](ZEROS)
    tracemalloc.start()
    try:
        with pytest.raises(Undecodable, match=f"unpacks to over {LIMIT} bytes") as refused:
            decoded(bomb, name, LIMIT)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert refused.value.is_large
    assert peak < 16 * LIMIT


@pytest.mark.parametrize("inner", PACKERS)
def test_every_layer_of_a_bomb_in_a_bomb_is_bounded(inner: str) -> None:
    nested = zstandard.compress(PACKERS[inner](ZEROS) + ZEROS)
    with pytest.raises(Undecodable, match="unpacks to over"):
        decoded(nested, f"{inner}, zstd", LIMIT)


def test_a_body_of_very_many_empty_members_is_not_read() -> None:
    with pytest.raises(Undecodable, match="over 1000 members"):
        decoded(gzip.compress(b"") * 1001, "gzip", LIMIT)


def _with_window(log: int) -> Callable[[bytes], bytes]:
    packer = zstandard.ZstdCompressor(
        compression_params=zstandard.ZstdCompressionParameters(window_log=log)
    ).compressobj()
    return lambda plain: packer.compress(plain) + packer.flush()


def test_a_frame_that_asks_its_reader_for_a_large_window_is_refused() -> None:
    plain = b"x" * 100
    assert decoded(_with_window(23)(plain), "zstd", LIMIT) == plain
    with pytest.raises(Undecodable, match="requires too much memory"):
        decoded(_with_window(27)(plain), "zstd", LIMIT)
