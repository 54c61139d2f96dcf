"""What one epoch did."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class EpochReport:
    """What an epoch did, for progress and metrics."""

    epoch: int
    seconds: float = 0
    records: dict[str, int] = field(default_factory=dict)
    """Records read, by feed."""
    rows: dict[str, int] = field(default_factory=dict)
    """Rows written, by object."""
    dead: dict[str, int] = field(default_factory=dict)
    """Dead letters, by feed."""
    late: dict[str, int] = field(default_factory=dict)
    """Rows that came after the watermark had passed their time, by feed."""
    errors: dict[str, int] = field(default_factory=dict)
    """Expressions that failed and gave NULL, by object."""
    spent: dict[str, float] = field(default_factory=dict)
    """Seconds that each object took to compute and to commit; those of one level pass side by side."""
    behind: bool = False
    """Whether some object has more to read up to the cut."""
