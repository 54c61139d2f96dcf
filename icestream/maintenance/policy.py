"""What to expire and what to merge: decisions as pure functions over what is known of a table."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from icestream.lake.table import Snapshot

SLACK = 10
"""Snapshots beyond the retained ones before an expiry is worth its commit."""

MEGABYTE = 1 << 20


@dataclass(frozen=True)
class Tier:
    """Files below `below` bytes are merged, at least `files` of them."""

    below: int
    files: int


TARGET = 256 * MEGABYTE
"""How large a merged file may become."""

TIERS = (
    Tier(1 * MEGABYTE, 32),
    Tier(16 * MEGABYTE, 16),
    Tier(96 * MEGABYTE, 8),
)


def to_expire(
    ancestry: Sequence[Snapshot],
    needed: Collection[int],
    retained: int,
    since: int | None = None,
) -> list[int]:
    """The snapshots (given newest first) that nothing needs any more.

    Kept are the newest `retained`, everything from the head back to the oldest needed one and its
    parent (a range is read along that chain), likewise to the oldest `since` a time, and the newest stamp of every
    pipeline.
    """
    kept = [i for i, s in enumerate(ancestry) if s.id in needed or _is_since(s, since)]
    oldest = max(kept, default=-1) + 1
    keep = max(retained, oldest + 1)
    if len(ancestry) <= keep + SLACK:
        return []
    stamped: set[str] = set()
    expired: list[int] = []
    for index, snapshot in enumerate(ancestry):
        stamp = snapshot.stamp
        newest = stamp is not None and stamp.pipeline not in stamped
        if stamp is not None:
            stamped.add(stamp.pipeline)
        if index >= keep and not newest:
            expired.append(snapshot.id)
    return expired


def _is_since(snapshot: Snapshot, time: int | None) -> bool:
    stamp = snapshot.stamp if time is not None else None
    return stamp is not None and time is not None and stamp.time >= time


def tier_to_merge(sizes: Sequence[int], least: int) -> Tier | None:
    """The lowest tier that has gathered enough files of its own sizes; the lowest one asks for `least` files."""
    above = 0
    for index, tier in enumerate(TIERS):
        count = sum(above <= size < tier.below for size in sizes)
        if count >= (least if index == 0 else tier.files):
            return tier
        above = tier.below
    return None
