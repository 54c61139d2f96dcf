"""Run sqllogictest files against a server: failures with file and line, a summary, 0 only if all is well."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from icestream.dev.slt.parser import read, text_of
from icestream.dev.slt.postgres import DEFAULT_URL, PostgresDatabase
from icestream.dev.slt.records import Sql
from icestream.dev.slt.runner import Outcome, Runner, completed
from icestream.errors import ConfigError, IcestreamError

VARIABLES = {"postgres": {"MATERIALIZED": ""}}
"""What a dialect gives to `${NAME:default}`: PostgreSQL does not keep a materialized view up to date, a plain one is."""


def main(argv: Sequence[str] | None = None) -> int:
    """The command."""
    args = _arguments().parse_args(argv)
    labels = {args.dialect, *args.label}
    counts: Counter[str] = Counter()
    began = time.monotonic()
    try:
        # All of it is parsed before anything is run.
        scripts = [tuple(read(file)) for path in args.files for file in _files(path)]
        for records in scripts:
            with Runner(
                lambda: PostgresDatabase(args.url),
                labels,
                VARIABLES.get(args.dialect),
                epochs=args.epochs,
                flush=None if args.dialect == "postgres" else "FLUSH",
            ) as runner:
                outcomes = []
                for outcome in runner.run(records):
                    outcomes.append(outcome)
                    word = _word(outcome, args.override)
                    counts[word] += 1
                    if word == "failed":
                        print(described(outcome), flush=True)
                        if not args.keep_going:
                            break
            if args.override:
                _write(outcomes)
            if counts["failed"] and not args.keep_going:
                break
    except IcestreamError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    words = ("passed", "failed", "skipped", *(["written"] if args.override else []))
    print(", ".join(f"{counts[word]} {word}" for word in words), end="")
    print(f" in {len(scripts)} files, {time.monotonic() - began:.1f} s")
    return 1 if counts["failed"] else 0


def described(outcome: Outcome) -> str:
    """A failure: where, the SQL, and what is wrong with it."""
    place = outcome.record.place
    sql = outcome.record.sql if isinstance(outcome.record, Sql) else ""
    parts = [f"{place.file}:{place.line}: {place.text.strip()}", sql, outcome.failure or ""]
    return "\n    ".join("\n".join(part for part in parts if part).splitlines()) + "\n"


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m icestream.dev.slt", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="a file, or a folder of .slt files")  # fmt: skip
    parser.add_argument("--url", default=DEFAULT_URL, help="the server (default: %(default)s)")
    parser.add_argument("--dialect", default="icestream", help="a label that skipif and onlyif know (default: %(default)s)")  # fmt: skip
    parser.add_argument("--label", action="append", default=[], help="one more such label")
    parser.add_argument("--epochs", type=int, default=1, help="split each history into so many epochs (default: %(default)s)")  # fmt: skip
    parser.add_argument("--keep-going", action="store_true", help="do not stop at the first failure")  # fmt: skip
    parser.add_argument("--override", "--complete", action="store_true", help="write what queries give into the files")  # fmt: skip
    return parser


def _files(path: Path) -> list[Path]:
    found = sorted(path.rglob("*.slt")) if path.is_dir() else [path]
    if not found:
        raise ConfigError(f"{path} has no .slt files")
    return found


def _word(outcome: Outcome, override: bool) -> str:
    if outcome.failure is None:
        return "skipped" if outcome.skipped else "passed"
    return "written" if override and outcome.actual is not None else "failed"


def _write(outcomes: Sequence[Outcome]) -> None:
    """Included files are written too, each with the outcomes of its own records."""
    for file in {outcome.record.place.file for outcome in outcomes}:
        path, own = Path(file), [o for o in outcomes if o.record.place.file == file]
        text = text_of(path)
        if (new := completed(text, own)) != text:
            path.write_bytes(new.encode())


if __name__ == "__main__":
    sys.exit(main())
