"""Texts that something between a client and a row may take for more than data."""

from __future__ import annotations

TRICKS = (
    "", "'", "''", "\\", "\\'", "a\\", "{now}", "{0}", "{", "}", "{{0}}", "${HOME}", "$${HOME}", "${env:HOME}", "$1", "$$",
    "$tag$", ";", "--", "/*", "*/", "%s", ":x", "\"", "`", "\n", "\r\n", "\t", "_element1_", "_v1", "_arg0_", "_r_", "\\u0041",
    "\u2028", "ä日😀", "\u202e", "e\u0301", "\x01$0", "E'x'", "x'00'", "NULL", "\x7f",
)  # fmt: skip
