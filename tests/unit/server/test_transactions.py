"""The states of a transaction, and the statements that control it."""

from __future__ import annotations

from typing import cast

import pytest

from icestream.catalog.objects import Table
from icestream.errors import IcestreamError, NotSupportedError
from icestream.lake.dml_log import TableChanges
from icestream.runtime.transaction import Transaction
from icestream.server.backend import Outcome
from icestream.server.transactions import TransactionBlock
from icestream.sql import parse_client_text
from icestream.sql.session_statements import TransactionStatement


class Written:
    """A block, and how many changes were committed together, each time."""

    def __init__(self) -> None:
        self.commits: list[int] = []
        self.block = TransactionBlock(lambda t: self.commits.append(len(t.changes)))

    def run(self, words: str) -> Outcome:
        (statement,) = parse_client_text(words)
        self.block.check(statement)
        assert isinstance(statement, TransactionStatement)
        return self.block.run(statement)

    def change(self) -> None:
        changes = self.block.changes
        assert changes is not None
        changes.changes.append((cast(Table, None), cast(TableChanges, None)))


@pytest.mark.parametrize("begin", ["BEGIN", "begin work", "START TRANSACTION", "begin read write"])
@pytest.mark.parametrize(("end", "commits"), [("COMMIT", [2]), ("end work", [2]), ("ROLLBACK", []), ("abort transaction", [])])  # fmt: skip
def test_changes_are_committed_together_or_not_at_all(
    begin: str, end: str, commits: list[int]
) -> None:
    written = Written()
    written.run(begin)
    assert written.block.state == "T"
    written.change()
    written.change()
    written.run(end)
    assert (written.block.state, written.commits) == ("I", commits)
    assert written.block.changes is None


def test_a_failed_transaction_only_ends() -> None:
    written = Written()
    written.run("BEGIN")
    written.change()
    written.run('SAVEPOINT "A b"')
    written.change()
    written.block.fail()
    assert written.block.state == "E"
    for words in ("SELECT 1", "SAVEPOINT x", "BEGIN", 'RELEASE "A b"'):
        with pytest.raises(IcestreamError) as caught:
            written.block.check(*parse_client_text(words))
        assert caught.value.code == "25P02"
    written.run('rollback transaction to savepoint "A b"')
    assert written.block.state == "T"
    written.block.fail()
    assert written.run("COMMIT").tag == "ROLLBACK"
    assert (written.block.state, written.commits) == ("I", [])


def test_savepoints_of_one_name_hide_each_other() -> None:
    written = Written()
    written.run("BEGIN")
    for _ in range(3):
        written.run("SAVEPOINT s")
        written.change()
    written.run("ROLLBACK TO S")
    written.run("RELEASE SAVEPOINT s")
    written.run("ROLLBACK TO s")
    written.run("COMMIT")
    assert written.commits == [1]


def test_what_is_outside_of_a_transaction_says_so() -> None:
    written = Written()
    for words in ("SAVEPOINT a", "ROLLBACK TO a", "RELEASE a"):
        with pytest.raises(IcestreamError) as caught:
            written.run(words)
        assert caught.value.code == "25P01"
    for words in ("COMMIT", "ROLLBACK"):
        assert [n.code for n in written.run(words).notices] == ["25P01"]
    written.run("BEGIN")
    assert [n.code for n in written.run("BEGIN").notices] == ["25001"]
    with pytest.raises(IcestreamError) as caught:
        written.run("ROLLBACK TO nothing")
    assert caught.value.code == "3B001"
    for words in ("PREPARE TRANSACTION 'x'", "COMMIT AND CHAIN"):
        with pytest.raises(NotSupportedError):
            written.run(words)
    for words in ("COMMIT please", "SAVEPOINT", "SAVEPOINT 1a", "ROLLBACK TO a b"):
        with pytest.raises(IcestreamError) as caught:
            written.run(words)
        assert caught.value.code == "42601"


def test_modes() -> None:
    written = Written()
    told = written.run("BEGIN ISOLATION LEVEL SERIALIZABLE, READ ONLY").notices
    assert [n.severity for n in told] == ["WARNING"]
    assert cast(Transaction, written.block.changes).read_only
    written.run("SET TRANSACTION READ WRITE")
    assert not cast(Transaction, written.block.changes).read_only
    written.run("COMMIT AND NO CHAIN")
    assert not written.run("BEGIN ISOLATION LEVEL READ COMMITTED").notices


@pytest.mark.parametrize(
    "modes",
    [
        "garbage nonsense",
        "ISOLATION LEVEL FOO",
        "ISOLATION LEVEL READ",
        "READ",
        "READ ONLY,",
        ", READ ONLY",
        "READ ONLY,, DEFERRABLE",
        "READ ONLY please",
        "READ ONLYISH",
        "NOT READ ONLY",
        "WORK TRANSACTION",
    ],
)
def test_modes_that_are_not_understood_are_refused(modes: str) -> None:
    written = Written()
    for word in ("BEGIN", "BEGIN WORK", "START TRANSACTION"):
        with pytest.raises(IcestreamError) as caught:
            written.run(f"{word} {modes}")
        assert (caught.value.code, written.block.state) == ("42601", "I")
    written.run("BEGIN READ WRITE, NOT DEFERRABLE ISOLATION LEVEL Read  Uncommitted")
    for words in (f"SET TRANSACTION {modes}", "SET TRANSACTION"):
        with pytest.raises(IcestreamError) as caught:
            written.run(words)
        assert caught.value.code == "42601"
    with pytest.raises(NotSupportedError):
        written.run("SET TRANSACTION SNAPSHOT 'x'")


def test_a_text_of_several_statements_is_a_transaction() -> None:
    written = Written()
    written.block.start_text()
    written.change()
    written.change()
    written.block.end_text()
    written.block.start_text()
    written.change()
    written.block.fail()
    written.block.end_text()
    assert (written.commits, written.block.state) == ([2], "I")
    written.block.start_text()
    written.change()
    written.run("BEGIN")
    written.change()
    written.block.end_text()
    assert written.commits == [2]
    written.run("COMMIT")
    assert written.commits == [2, 2]


def test_the_client_is_gone() -> None:
    written = Written()
    written.run("BEGIN")
    written.change()
    written.block.discard()
    assert (written.block.state, written.commits, written.block.changes) == ("I", [], None)
