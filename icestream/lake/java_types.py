"""Objects of Java that Python uses, as protocols: the methods that are called, with the types that Py4J gives.

Iceberg's tables, snapshots and files, and the classes of the engine's own jar. What is only passed on or used in one place is
a `JavaObject`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

JavaObject = Any


class JavaFile(Protocol):
    """org.apache.iceberg.DataFile or DeleteFile."""

    def location(self) -> object:
        """Where it is."""

    def content(self) -> object:
        """DATA, POSITION_DELETES or EQUALITY_DELETES."""

    def format(self) -> object:
        """PARQUET, AVRO, ORC or PUFFIN."""

    def recordCount(self) -> int:
        """How many rows it holds."""

    def fileSizeInBytes(self) -> int:
        """Its size."""

    def specId(self) -> int:
        """The partition spec that it was written with."""

    def partition(self) -> JavaObject:
        """The values of its partition."""

    def firstRowId(self) -> int | None:
        """Of a data file: the id of its first row, if rows have ids."""

    def dataSequenceNumber(self) -> int | None:
        """The sequence number of its rows."""

    def referencedDataFile(self) -> object | None:
        """Of a delete file: the only data file that it is about, if that is told."""

    def contentOffset(self) -> int | None:
        """Of a deletion vector: where it begins in its file."""

    def contentSizeInBytes(self) -> int | None:
        """Of a deletion vector: its size."""


class JavaSnapshot(Protocol):
    """org.apache.iceberg.Snapshot."""

    def snapshotId(self) -> int:
        """Its id."""

    def parentId(self) -> int | None:
        """The id of the one before."""

    def sequenceNumber(self) -> int:
        """Its number in the order of commits."""

    def timestampMillis(self) -> int:
        """When it was committed."""

    def operation(self) -> str:
        """append, overwrite, delete or replace."""

    def schemaId(self) -> int | None:
        """The schema at that time."""

    def summary(self) -> Mapping[str, str]:
        """What the commit says of itself; a map of Java, whose `get` gives None for what is not there."""

    def addedDataFiles(self, io: JavaObject) -> JavaObject:
        """An iterable of data files."""

    def removedDataFiles(self, io: JavaObject) -> JavaObject:
        """An iterable of data files."""

    def addedDeleteFiles(self, io: JavaObject) -> JavaObject:
        """An iterable of delete files."""

    def removedDeleteFiles(self, io: JavaObject) -> JavaObject:
        """An iterable of delete files."""


class JavaTable(Protocol):
    """org.apache.iceberg.Table, as it was when it was loaded."""

    def currentSnapshot(self) -> JavaSnapshot | None:
        """The head; None for a table without commits."""

    def snapshot(self, id: int) -> JavaSnapshot | None:
        """A snapshot, if it has not expired."""

    def snapshots(self) -> JavaObject:
        """An iterable of all snapshots."""

    def schema(self) -> JavaObject:
        """The current schema."""

    def schemas(self) -> JavaObject:
        """All schemas by their ids."""

    def spec(self) -> JavaObject:
        """The current partition spec."""

    def specs(self) -> JavaObject:
        """All partition specs by their ids."""

    def sortOrder(self) -> JavaObject:
        """The current sort order."""

    def properties(self) -> JavaObject:
        """The properties, a map of Java."""

    def location(self) -> object:
        """The folder of the table."""

    def locationProvider(self) -> JavaObject:
        """Names new data files."""

    def io(self) -> JavaObject:
        """Reads and writes files."""

    def operations(self) -> JavaObject:
        """Gives the metadata."""

    def uuid(self) -> object:
        """The identity of the table."""

    def newScan(self) -> JavaObject:
        """Lists data files."""

    def newAppend(self) -> JavaObject:
        """An update that adds data files and merges manifests."""

    def newFastAppend(self) -> JavaObject:
        """An update that adds data files."""

    def newRowDelta(self) -> JavaObject:
        """An update that adds and removes rows."""

    def updateSchema(self) -> JavaObject:
        """An update of the columns."""

    def updateProperties(self) -> JavaObject:
        """An update of the properties."""

    def expireSnapshots(self) -> JavaObject:
        """An update that removes snapshots."""


class FailureCounts(Protocol):
    """FailureCounts.java: an accumulator of failed expressions by object."""

    def describe(self) -> str:
        """`1=5,7=2`: the counts by the ids of objects."""


class RegexJobs(Protocol):
    """The static methods of Regex.java that end patterns of cancelled job groups."""

    def cancel(self, group: str) -> None:
        """Matches of this job group end from now on."""

    def forget(self, group: str) -> None:
        """The group has ended."""


class MemoryGuard(Protocol):
    """The static methods of JvmGuard.java."""

    def install(self) -> None:
        """End the JVM if a thread ends for lack of memory."""

    def hasIdleJob(self) -> bool:
        """Whether nothing works on a job that somebody waits for."""


class SystemProperties(Protocol):
    """The properties of java.lang.System."""

    def getProperty(self, name: str) -> str | None:
        """The value, if there is one."""

    def setProperty(self, name: str, value: str) -> str | None:
        """Set a value; gives the one before."""


class ArrowServer(Protocol):
    """Spark's thread that sends batches to a socket."""

    def getResult(self) -> object:
        """Wait for its end; raises what it failed with."""


class FileStatus(Protocol):
    """A file that Hadoop has listed."""

    def getPath(self) -> object:
        """Its path."""
