"""Weights are read by their format alone: what is not exactly that format, or not finite, is refused with a
reason."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save

from assay.core.errors import RecordError
from assay.package.verification.content.weights import Tensor, _is_finite, read_safetensors


def written(path: Path, header: object, body: bytes) -> Path:
    text = json.dumps(header).encode() if not isinstance(header, bytes) else header
    path.write_bytes(len(text).to_bytes(8, "little") + text + body)
    return path


def test_what_the_library_writes_is_read(tmp_path: Path) -> None:
    arrays = {
        "b": np.arange(6, dtype=np.float32).reshape(2, 3),
        "a": np.zeros(0, np.float16),
        "c": np.int64([1]),
    }
    (tmp_path / "x.safetensors").write_bytes(save(arrays, metadata={"format": "pt"}))
    found = read_safetensors(tmp_path / "x.safetensors", "x")
    assert {name: (tensor.kind, tensor.shape) for name, tensor in found.items()} == {
        "b": ("F32", (2, 3)),
        "a": ("F16", (0,)),
        "c": ("I64", (1,)),
    }
    assert np.array_equal(np.frombuffer(found["b"].content, "<f4"), arrays["b"].ravel())


FOUR = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}


@pytest.mark.parametrize(
    ("header", "body"),
    [
        (b"{", b""),
        (b'{"a":1,"a":2}', b""),
        ([], b""),
        ({"a": 3}, b""),
        ({"a": FOUR}, b"123"),
        ({"a": FOUR}, b"12345"),
        ({"a": FOUR | {"data_offsets": [4, 8]}}, b"12345678"),
        ({"a": FOUR, "b": FOUR}, b"1234"),
        ({"a": FOUR | {"shape": [2]}}, b"1234"),
        ({"a": FOUR | {"shape": [-1, -1]}}, b"1234"),
        ({"a": FOUR | {"dtype": "F128"}}, b"1234"),
        ({"a": FOUR | {"more": 1}}, b"1234"),
        ({"a": FOUR | {"shape": "1"}}, b"1234"),
    ],
)
def test_what_is_not_exactly_the_format_is_refused(tmp_path: Path, header: object, body: bytes) -> None:
    with pytest.raises(RecordError):
        read_safetensors(written(tmp_path / "x.safetensors", header, body), "x")


def test_a_header_longer_than_the_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.safetensors").write_bytes((2**63).to_bytes(8, "little") + b"{}")
    with pytest.raises(RecordError, match="header"):
        read_safetensors(tmp_path / "x.safetensors", "x")


@pytest.mark.parametrize(
    ("kind", "bits", "finite"),
    [
        ("F32", b"\x00\x00\x80\x7f", False),
        ("F32", b"\x01\x00\x80\xff", False),
        ("F32", b"\xff\xff\x7f\x7f", True),
        ("BF16", b"\x80\x7f", False),
        ("BF16", b"\xc0\xff", False),
        ("BF16", b"\x7f\x7f", True),
        ("F16", b"\x00\x7c", False),
        ("F16", b"\xff\x7b", True),
        ("F64", b"\x00" * 6 + b"\xf0\x7f", False),
        ("I32", b"\xff" * 4, True),
    ],
)
def test_nan_and_inf_are_told_from_numbers_by_their_bits(kind: str, bits: bytes, finite: bool) -> None:
    assert _is_finite(Tensor(kind, (1,), memoryview(bits))) is finite
