"""Random bytes, and messages that are changed a little."""

from __future__ import annotations

import random
import struct


class Mutator:
    """Makes bytes from one seed."""

    def __init__(self, seed: int) -> None:
        self.r = random.Random(seed)

    def noise(self, most: int) -> bytes:
        """Random bytes, with many zeros."""
        return bytes(
            self.r.choice((0, 0, 1, 255, self.r.randrange(256)))
            for _ in range(self.r.randrange(most))
        )

    def mutated(self, data: bytes) -> bytes:
        """Bytes changed, cut out, put in; a length that lies."""
        r, made = self.r, bytearray(data)
        for _ in range(r.randrange(1, 4)):
            at = r.randrange(len(made) + 1)
            match r.randrange(5):
                case 0:
                    made[at : at + 1] = bytes([r.randrange(256)])
                case 1:
                    made[at : at + r.randrange(8)] = b""
                case 2:
                    made[at:at] = self.noise(8)
                case 3 if len(made) >= 5:
                    length = r.choice((0, 3, 4, 5, len(made), 1 << 20, 1 << 30, 0x7FFFFFFF, -1, -5))
                    made[1:5] = struct.pack("!i", length)
                case 4:
                    made[at:at] = made[: r.randrange(len(made) + 1)]
        return bytes(made)
