"""Deletion vectors, read by somebody else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.table.deletion_vector import deletion_vectors_from_puffin_file
from pyiceberg.table.puffin import PuffinFile

from icestream.lake.vectors import Bits, decode, encode, puffin

LOCATION = "file:/lake/täble/data-1.parquet"


@given(st.sets(st.integers(0, 2**40), min_size=1, max_size=200))
def test_a_vector_comes_back_as_it_was(positions: set[int]) -> None:
    assert decode(encode(Bits(positions))) == Bits(positions)


@pytest.mark.parametrize("positions", [{0}, {5, 7, 70_000}, set(range(0, 100_000, 3)), {2**33, 1}])
def test_pyiceberg_reads_the_puffin_file(positions: set[int]) -> None:
    bits = Bits(positions)
    file = PuffinFile(puffin(encode(bits), LOCATION, len(bits)))
    (blob,) = file.footer.blobs
    assert blob.type == "deletion-vector-v1"
    assert blob.properties["cardinality"] == str(len(positions))
    (vector,) = deletion_vectors_from_puffin_file(file)
    assert vector.referenced_data_file == LOCATION
    assert set(vector.to_vector().to_pylist()) == positions
