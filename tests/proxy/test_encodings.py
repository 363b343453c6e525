"""Bodies that their senders compressed, in every way in which senders do."""

import gzip
import zlib

import pytest
import zstandard

from agents.proxy.encodings import Undecodable, decoded

PLAIN = b'{"model": "m", "input": "go"}' * 20
LIMIT = 10_000
GZIP, ZSTD = gzip.compress(PLAIN, mtime=0), zstandard.compress(PLAIN)


def _bare(plain: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(plain) + packer.flush()


@pytest.mark.parametrize(
    ("header", "raw"),
    [
        ("", PLAIN),
        ("Identity", PLAIN),
        ("GZIP", GZIP),
        ("x-gzip", GZIP),
        ("gzip", gzip.compress(PLAIN[:20], mtime=0) + gzip.compress(PLAIN[20:], mtime=0)),
        ("gzip", GZIP + bytes(12)),
        ("deflate", zlib.compress(PLAIN)),
        ("Deflate", _bare(PLAIN)),
        ("zstd", ZSTD),
        ("ZStd", zstandard.compress(PLAIN[:20]) + zstandard.compress(PLAIN[20:])),
        ("zstd", b"\x50\x2a\x4d\x18\x04\x00\x00\x00note" + ZSTD),
        ("gzip, identity,zstd", zstandard.compress(GZIP)),
    ],
)
def test_a_body_is_what_it_was_before_its_codings(header: str, raw: bytes) -> None:
    assert decoded(raw, header, LIMIT) == PLAIN


@pytest.mark.parametrize(
    ("header", "raw", "why"),
    [
        ("br", GZIP, "content-encoding br is not understood; known: gzip, deflate, zstd"),
        ("gzip, aws-chunked", GZIP, "content-encoding aws-chunked is not understood"),
        ("gzip, gzip, gzip, gzip, gzip", GZIP, "names 5 codings; at most 4"),
        ("gzip", PLAIN, "the body is not gzip"),
        ("gzip", GZIP[:-3], "the body is not gzip: Compressed file ended"),
        ("gzip", GZIP[:-8] + bytes(8), "CRC check failed"),
        ("gzip", GZIP + b"more", "the body is not gzip"),
        ("deflate", zlib.compress(PLAIN)[:-3], "the body is not deflate"),
        ("deflate", zlib.compress(PLAIN) + b"more", "the body is not deflate"),
        ("deflate", b"", "it ends too early"),
        ("zstd", PLAIN, "the body is not zstd"),
        ("zstd", ZSTD[:-3], "it ends too early"),
        ("zstd", ZSTD + b"more", "the body is not zstd"),
    ],
)
def test_a_body_that_cannot_be_unpacked_is_refused_with_the_reason(header: str, raw: bytes, why: str) -> None:
    with pytest.raises(Undecodable, match=why) as refused:
        decoded(raw, header, LIMIT)
    assert not refused.value.is_large
