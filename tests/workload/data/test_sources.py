"""Are the data what the run file asked for, and is every bad file one clear line?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from systolic.errors import WorkloadError
from systolic.workload import DataSource, load_data, parse_shape, write_npy
from systolic.workload.data import host_memory as host
from systolic.workload.data import sources as data_module

ARANGE, RANDOM = DataSource("arange"), DataSource("random", 3)
TYPES = ["f32", "bf16", "f16", "f8e4m3fn", "f8e5m2", "s8", "u8", "s32", "s4"]


def load(source: DataSource, shape: str) -> Any:
    return load_data(source, parse_shape(shape))


def test_arange_counts_row_by_row() -> None:
    assert load(ARANGE, "f32[2,3]").tolist() == [[1, 2, 3], [4, 5, 6]]


def test_arange_wraps_and_rounds() -> None:
    assert load(ARANGE, "s8[2,100]")[1].tolist() == [*range(101, 128), *range(-128, -55)]
    assert load(ARANGE, "bf16[1,259]")[0, 256:].tolist() == [256.0, 258.0, 260.0]
    assert np.isinf(load(ARANGE, "f16[1,65520]")[0, -1])


@pytest.mark.parametrize("name", ["f32", "bf16", "s8", "s32"])
def test_one_number_of_a_file(name: str, tmp_path: Path) -> None:
    shape = parse_shape(f"{name}[]")
    path = tmp_path / "one.npy"
    np.save(path, np.asarray(3).astype(shape.dtype))
    found = load_data(DataSource("file", path=path), shape)
    assert (found.shape, found.dtype, found.item()) == ((), shape.dtype, 3)


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("source", [ARANGE, RANDOM], ids=str)
def test_type_and_dimensions(name: str, source: DataSource) -> None:
    found = load(source, f"{name}[3,2,4]")
    assert found.dtype == parse_shape(f"{name}[1]").dtype
    assert found.shape == (3, 2, 4)
    assert found.flags.c_contiguous


def test_random_is_numpys() -> None:
    expected = np.random.default_rng(3).standard_normal(35, np.float32).reshape(5, 7)
    assert (load(RANDOM, "f32[5,7]") == expected).all()
    assert (load(RANDOM, "f32[5,7]") != load(DataSource("random", 4), "f32[5,7]")).any()


def test_random_integers_fill_their_range() -> None:
    found = load(RANDOM, "s8[100,100]")
    assert (found.min(), found.max()) == (-128, 127)
    assert load(RANDOM, "u8[100,100]").max() == 255


@pytest.mark.parametrize("source", [ARANGE, RANDOM], ids=str)
def test_pieces_do_not_show(source: DataSource, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = load(source, "f32[5,7]")
    monkeypatch.setattr(data_module, "CHUNK_ELEMENTS", 8)
    assert (load(source, "f32[5,7]") == whole).all()


def test_truth_values() -> None:
    """Counted, pred wraps as an integer of one bit; drawn, both values come up."""
    assert load(ARANGE, "pred[2,3]").tolist() == [[True, False, True], [False, True, False]]
    assert 300 < np.count_nonzero(load(RANDOM, "pred[1000]")) < 700


@pytest.mark.parametrize("name", ["c128", "c64"])
@pytest.mark.parametrize("source", [ARANGE, RANDOM], ids=str)
def test_types_without_real_numbers(name: str, source: DataSource) -> None:
    with pytest.raises(WorkloadError, match=f"^data type {name} holds no real numbers"):
        load(source, f"{name}[2,2]")


def test_too_large_for_this_computer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "available_bytes", lambda: 3 << 30)
    with pytest.raises(WorkloadError) as caught:
        load(ARANGE, "f32[1000000,1000000]")
    assert str(caught.value) == (
        "f32[1000000,1000000]{1,0} needs 14.6 TiB in this computer's memory (4 copies), "
        "which has 3.0 GiB free"
    )


def test_memory_is_not_asked_where_the_system_does_not_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "available_bytes", lambda: None)
    assert load(ARANGE, "f32[1,2]").tolist() == [[1, 2]]


def npy(folder: Path, array: Any, **options: Any) -> DataSource:
    path = folder / "x.npy"
    np.save(path, array, **options)
    return DataSource("file", path=path)


def csv(folder: Path, text: str | bytes) -> DataSource:
    path = folder / "x.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return DataSource("file", path=path)


class TestNpy:
    """.npy files: of the right type, of another, and hostile ones."""

    @pytest.mark.parametrize("name", TYPES)
    def test_same_type(self, name: str, tmp_path: Path) -> None:
        array = load(RANDOM, f"{name}[4,3]")
        write_npy(tmp_path / "x.npy", array)
        found = load(DataSource("file", path=tmp_path / "x.npy"), f"{name}[4,3]")
        assert found.dtype == array.dtype
        assert found.tobytes() == array.tobytes()

    def test_other_orders(self, tmp_path: Path) -> None:
        array = np.asfortranarray(np.arange(6, dtype=">f8").reshape(2, 3))
        assert load(npy(tmp_path, array), "f32[2,3]").tolist() == [[0, 1, 2], [3, 4, 5]]

    def test_floats_round(self, tmp_path: Path) -> None:
        found = load(npy(tmp_path, np.array([[0.1, np.nan, np.inf]])), "bf16[1,3]")
        assert float(found[0, 0]) == float(ml_dtypes.bfloat16(0.1))
        assert np.isnan(found[0, 1])
        assert np.isinf(found[0, 2])

    @pytest.mark.parametrize(
        ("value", "shape", "why"),
        [
            (300, "s8[1,2]",
             "300 at [0, 1], which s8 cannot hold (whole numbers from -128 to 127)"),
            (-1, "u8[1,2]", "-1 at [0, 1], which u8 cannot hold (whole numbers from 0 to 255)"),
            (0.5, "s8[1,2]",
             "0.5 at [0, 1], which s8 cannot hold (whole numbers from -128 to 127)"),
            (np.nan, "s8[1,2]",
             "nan at [0, 1], which s8 cannot hold (whole numbers from -128 to 127)"),
            (1e6, "f16[1,2]", "1000000.0 at [0, 1], which f16 cannot hold"),
            (1e6, "f8e4m3fn[1,2]", "1000000.0 at [0, 1], which f8e4m3fn cannot hold"),
            (1e300, "f32[1,2]", "1e+300 at [0, 1], which f32 cannot hold"),
        ],
    )  # fmt: skip
    def test_numbers_the_type_cannot_hold(
        self, value: float, shape: str, why: str, tmp_path: Path
    ) -> None:
        source = npy(tmp_path, np.array([[1, value]]))
        with pytest.raises(WorkloadError) as caught:
            load(source, shape)
        assert str(caught.value) == f"{source.path}: holds {why}"

    def test_large_integers_are_compared_exactly(self, tmp_path: Path) -> None:
        source = npy(tmp_path, np.array([[2**63, 2**64 - 1]], np.uint64))
        with pytest.raises(WorkloadError, match=r"which s32 cannot hold"):
            load(source, "s32[1,2]")

    @pytest.mark.parametrize(
        ("array", "text"),
        [
            (np.zeros((3, 2)), "holds [3, 2] elements, but the shape is [2, 3]"),
            (np.zeros(6), "holds [6] elements, but the shape is [2, 3]"),
            (np.zeros((2, 3), complex), "holds complex128, not real numbers"),
            (np.zeros((2, 3), "U1"), "holds <U1, not real numbers"),
            (np.zeros((2, 3), "V2"), "holds |V2, which is not f32"),
            (np.zeros((2, 3), [("a", "f4")]), "holds [('a', '<f4')], which is not f32"),
        ],
    )
    def test_not_the_array_asked_for(self, array: Any, text: str, tmp_path: Path) -> None:
        source = npy(tmp_path, array)
        with pytest.raises(WorkloadError) as caught:
            load(source, "f32[2,3]")
        assert str(caught.value) == f"{source.path}: {text}"

    def test_pickle_is_refused(self, tmp_path: Path) -> None:
        source = npy(tmp_path, np.array([[{}, {}]]), allow_pickle=True)
        with pytest.raises(WorkloadError, match=r"is not a .npy file numpy can read"):
            load(source, "f32[1,2]")

    def test_a_header_that_promises_too_much(self, tmp_path: Path) -> None:
        source = npy(tmp_path, np.zeros((1, 2), np.float32))
        content = source.path.read_bytes().replace(b"(1, 2)", b"(1000000000, 2)", 1)
        source.path.write_bytes(content)
        with pytest.raises(WorkloadError, match=r"is not a .npy file numpy can read"):
            load(source, "f32[1,2]")

    @pytest.mark.parametrize("content", [b"", b"\x93NUMPY", b"PK\x03\x04", b"hello", b"\x80\x04N."])
    def test_not_npy(self, content: bytes, tmp_path: Path) -> None:
        (tmp_path / "x.npy").write_bytes(content)
        with pytest.raises(WorkloadError, match=r"x\.npy: is not a \.npy file"):
            load(DataSource("file", path=tmp_path / "x.npy"), "f32[1,2]")

    def test_damaged_headers(self, tmp_path: Path) -> None:
        source = npy(tmp_path, np.ones((1, 2), np.float32))
        good = source.path.read_bytes()
        rng = np.random.default_rng(0)
        for _ in range(300):
            bad = bytearray(good)
            for place in rng.integers(0, 80, rng.integers(1, 4)):
                bad[place] = rng.integers(0, 256)
            source.path.write_bytes(bytes(bad))
            try:
                load(source, "f32[1,2]")
            except WorkloadError as error:
                assert "\n" not in str(error)  # noqa: PT017 - most damage is noticed, not all


class TestCsv:
    """.csv files: with and without a header, and bad ones."""

    def test_numbers(self, tmp_path: Path) -> None:
        assert load(csv(tmp_path, "1,2,-3\n4,5e0,6\n"), "s8[2,3]").tolist() == [
            [1, 2, -3],
            [4, 5, 6],
        ]

    def test_header_and_blank_lines_are_skipped(self, tmp_path: Path) -> None:
        text = "\ufeffa,b\r\n1,2\r\n\r\n3,4\r\n\r\n"
        assert load(csv(tmp_path, text), "f32[2,2]").tolist() == [[1, 2], [3, 4]]

    def test_byte_order_mark_is_not_a_header(self, tmp_path: Path) -> None:
        assert load(csv(tmp_path, "\ufeff1,2\n"), "f32[1,2]").tolist() == [[1, 2]]

    def test_one_row_one_column(self, tmp_path: Path) -> None:
        assert load(csv(tmp_path, "1,2"), "f32[1,2]").tolist() == [[1, 2]]
        assert load(csv(tmp_path, "1\n2"), "f32[2,1]").tolist() == [[1], [2]]

    @pytest.mark.parametrize(
        ("text", "why"),
        [
            ("", "holds no numbers"),
            ("a,b\n", "holds no numbers"),
            (b"\xff\xfe", "is not a text file (UTF-8)"),
            ("1,2\n3\n", "is not a matrix of numbers ("),
            ("1,2\n3,x\n", "is not a matrix of numbers (could not convert string 'x'"),
            ("1,2,3\n", "holds [1, 3] elements, but the shape is [2, 2]"),
        ],
    )
    def test_refused(self, text: str | bytes, why: str, tmp_path: Path) -> None:
        source = csv(tmp_path, text)
        with pytest.raises(WorkloadError) as caught:
            load(source, "f32[2,2]")
        assert str(caught.value).startswith(f"{source.path}: {why}")

    def test_too_large(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("systolic.workload.data.npy_csv.CSV_LIMIT_BYTES", 2)
        with pytest.raises(WorkloadError, match=r"use .npy instead"):
            load(csv(tmp_path, "1,2"), "f32[1,2]")

    @pytest.mark.parametrize("name", ["x.csv", "x.npy"])
    def test_missing_or_directory(self, name: str, tmp_path: Path) -> None:
        source = DataSource("file", path=tmp_path / name)
        with pytest.raises(WorkloadError, match=r"no such file$"):
            load(source, "f32[1,2]")
        (tmp_path / name).mkdir()
        with pytest.raises(WorkloadError, match=r"is a directory, not a file$"):
            load(source, "f32[1,2]")

    def test_name_with_zero_byte(self) -> None:
        with pytest.raises(WorkloadError, match=r"cannot be a file name|no such file"):
            load(DataSource("file", path=Path("a\0.npy")), "f32[1,2]")
