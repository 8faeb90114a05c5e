"""Is an impossible [dram.organisation] refused in one line, and a possible one written back?"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pydantic import ValidationError

from systolic.config import load_chip, to_toml
from systolic.errors import ConfigError
from systolic.hw.spec import Dram, DramOrganisation

CHIPS = Path(__file__).resolve().parents[2] / "configs" / "chips"
CHIP = (CHIPS / "ddr4_128x128.toml").read_text(encoding="utf-8")
PLACE = "[dram.organisation]"


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ("channels = 4", "channels = 3",
         "[dram] bytes_per_cycle (64) must be a multiple of organisation.channels (3): each has an "
         "equal part"),
        ("channels = 4", "channels = 0", f"{PLACE} channels: needs an integer >= 1, found 0"),
        ("channels = 4", "channels = 257", f"{PLACE} channels: needs an integer <= 256, found 257"),
        ("banks = 16 ", "banks = 17 ",
         "[dram] size_bytes (34359738368) must be a multiple of channels x banks x row_bytes "
         "(557056): every bank has equally many rows"),
        ("row_bytes = 8192", "row_bytes = 8193",
         "[dram] organisation: row_bytes (8193) must be a multiple of burst_bytes (64)"),
        ("interleave_bytes = 256", "interleave_bytes = 32",
         "[dram] organisation: interleave_bytes (32) must be a multiple of burst_bytes (64)"),
        ("burst_bytes = 64", "", f"{PLACE} burst_bytes: is missing; needs an integer >= 1"),
        ("precharge_cycles = 17", "precharge = 17",
         f'{PLACE} unknown key "precharge" (known: activate_cycles, '
         "activate_gap_cycles, activate_gap_in_group_cycles, address_order, bank_groups, banks, "
         "burst_bytes, burst_gap_cycles, burst_gap_in_group_cycles, channels, "
         "four_activates_cycles, hash_banks, hash_channels, interleave_bytes, outstanding, "
         "patience_cycles, precharge_cycles, read_to_write_cycles, refresh_cycles, "
         "refresh_interval_cycles, row_active_cycles, row_bytes, row_cycle_cycles, scheduling, "
         'write_to_read_cycles); perhaps "precharge_cycles" was meant '
         "(also missing: [dram.organisation] precharge_cycles)"),
        ("activate_cycles = 17", "activate_cycles = 17\noutstanding = 0",
         f"{PLACE} outstanding: needs an integer >= 1, found 0"),
        ("activate_cycles = 17", 'activate_cycles = 17\nscheduling = "frfcfs"',
         f'{PLACE} scheduling: needs one of "fcfs", "fr_fcfs", found "frfcfs"; '
         'perhaps "fr_fcfs" was meant'),
        ("activate_cycles = 17", "activate_cycles = 17\npatience_cycles = 9",
         '[dram] organisation: patience_cycles (9) has no meaning with scheduling = "fcfs": '
         "nothing overtakes"),
        ("activate_cycles = 17", "activate_cycles = 17\nbank_groups = 3",
         "[dram] organisation: banks (16) must be a multiple of bank_groups (3)"),
        ("activate_cycles = 17",
         'activate_cycles = 17\naddress_order = ["row", "bank", "bank", "column"]',
         "[dram] organisation: address_order: must name each of column, bank_group, bank, row "
         "once"),
        ("activate_cycles = 17", "activate_cycles = 17\nrow_active_cycles = 16",
         "[dram] organisation: row_active_cycles (16) is less than activate_cycles (17): "
         "tRAS < tRCD"),
        ("activate_cycles = 17",
         "activate_cycles = 17\nrow_active_cycles = 39\nrow_cycle_cycles = 38",
         "[dram] organisation: row_cycle_cycles (38) is less than row_active_cycles (39): "
         "tRC < tRAS"),
        ("activate_cycles = 17",
         "activate_cycles = 17\nrow_active_cycles = 39\nrow_cycle_cycles = 55",
         "[dram] organisation: row_cycle_cycles (55) is less than row_active_cycles + "
         "precharge_cycles (56): tRC < tRAS + tRP"),
        ("activate_cycles = 17",
         "activate_cycles = 17\nactivate_gap_cycles = 6\nactivate_gap_in_group_cycles = 4",
         "[dram] organisation: activate_gap_in_group_cycles (4) is less than activate_gap_cycles "
         "(6): tRRD_L < tRRD_S"),
        ("activate_cycles = 17",
         "activate_cycles = 17\nactivate_gap_cycles = 6\nfour_activates_cycles = 5",
         "[dram] organisation: four_activates_cycles (5) is less than activate_gap_cycles (6): "
         "tFAW < tRRD_S"),
        ("activate_cycles = 17",
         "activate_cycles = 17\nburst_gap_cycles = 6\nburst_gap_in_group_cycles = 4",
         "[dram] organisation: burst_gap_in_group_cycles (4) is less than burst_gap_cycles (6): "
         "tCCD_L < tCCD_S"),
        ("activate_cycles = 17", "activate_cycles = 17\nrefresh_cycles = 420",
         "[dram] organisation: refresh_cycles (420) and refresh_interval_cycles (0) need one "
         "another: give both or neither"),
        ("activate_cycles = 17",
         "activate_cycles = 17\nrefresh_cycles = 420\nrefresh_interval_cycles = 437",
         "[dram] organisation: refresh_interval_cycles (437) must be more than precharge_cycles + "
         "refresh_cycles (437): tREFI <= tRP + tRFC"),
        ("queues = ", "engines = 2\npartitions_per_engine = 64\nqueues = ",
         "dma.partitions_per_engine: copies spread over engines have no order of bursts, so that "
         "dram cannot have an organisation"),
        ("activate_cycles = 17", "activate_cycles = -1",
         f"{PLACE} activate_cycles: needs an integer >= 0, found -1"),
    ],
)  # fmt: skip
def test_fault(old: str, new: str, text: str, tmp_path: Path) -> None:
    assert old in CHIP
    path = tmp_path / "chip.toml"
    path.write_text(CHIP.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load_chip(path)
    assert str(caught.value) == f"{path}: {text}"


def test_a_chip_prints_back_with_and_without_it(tmp_path: Path) -> None:
    for name in ("ddr4_128x128", "ideal_4x4"):
        chip = load_chip(CHIPS / f"{name}.toml")
        path = tmp_path / f"{name}.toml"
        path.write_text(to_toml(chip), encoding="utf-8")
        assert load_chip(path) == chip
        assert ("organisation" in to_toml(chip)) == (name == "ddr4_128x128")


@pytest.mark.parametrize(
    ("table", "text"),
    [
        ({"channels": 3, "hash_channels": True},
         "channels (3) must be a power of two with hash_channels = true"),
        ({"banks": 12, "hash_banks": True},
         "banks (12) must be a power of two with hash_banks = true"),
    ],
)  # fmt: skip
def test_hashing_needs_powers_of_two(table: dict[str, object], text: str) -> None:
    organisation = load_chip(CHIPS / "ddr4_128x128.toml").dram.organisation
    assert organisation is not None
    with pytest.raises(ValidationError, match=re.escape(text)):
        DramOrganisation.model_validate(organisation.model_dump() | table)


def test_whole_stripes_are_needed_where_the_row_is_not_on_top() -> None:
    dram = load_chip(CHIPS / "ddr4_128x128.toml").dram.model_dump()
    dram["organisation"] |= {
        "interleave_bytes": 64 * 3,
        "address_order": ("column", "row", "bank_group", "bank"),
    }
    text = (
        "size_bytes (34359738368) must be a multiple of channels x interleave_bytes (768) where "
        "organisation.address_order does not end in row"
    )
    with pytest.raises(ValidationError, match=re.escape(text)):
        Dram.model_validate(dram)
