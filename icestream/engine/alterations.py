"""ALTER and DROP: the store first, then the running pipeline, whose tables follow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from icestream import faults
from icestream.catalog.alter import alter
from icestream.catalog.catalog import Catalog
from icestream.catalog.objects import Index, Object
from icestream.engine.home_resources import HomeResources
from icestream.errors import FencedError, SqlError
from icestream.jobs import Job, Jobs
from icestream.result import Result
from icestream.runtime.writes import Writes
from icestream.sql import statements as st


class Alterations:
    """Changes and drops objects."""

    def __init__(self, resources: HomeResources, jobs: Jobs, writes: Writes) -> None:
        self._resources = resources
        self._jobs = jobs
        self._writes = writes

    def alter(self, statement: st.Alter) -> Result:
        """Run an ALTER statement."""
        resources = self._resources
        change = alter(statement, resources.catalog)
        if change.notice is not None:
            resources.notice(change.notice)
        if change.reset is not None:
            resources.pipeline.reset_source(change.reset)
        if change.catalog is not None:
            self._check_jobs(statement)
            if statement.action in ("add column", "drop column"):
                self._take_in_changes(statement)
            self.become(change.catalog)
        return Result(message=f"ALTER {statement.kind.upper()}")

    def _take_in_changes(self, statement: st.Alter) -> None:
        """What statements have put into a table has the columns of then, so it goes in before they change."""
        resources = self._resources
        resources.open()
        self._writes.see(o.key for o in resources.catalog if o.name == statement.name.name)

    def _check_jobs(self, statement: st.Alter) -> None:
        """Refuse to change what a job reads: it was bound to what there was. Views are written out in what reads them,
        so any job may."""
        names = {statement.name.name, str(statement.new_name).rpartition(".")[2]}
        keys: set[str] = {o.key for o in self._resources.catalog if o.name in names}
        for job in self._jobs if statement.kind == "view" else self._jobs.over(keys):
            raise busy_error(job, statement)

    def become(self, after: Catalog) -> None:
        """Take another catalog of the same objects: the store first, then the running pipeline, whose tables follow.
        If they cannot, everything is as it was."""
        resources = self._resources
        resources.own()
        catalog = resources.catalog
        before = catalog.trial(catalog.stored.values(), {})
        pipeline = resources.pipeline if any(takes_part(o) for o in catalog) else None
        if pipeline is not None:
            pipeline.settle()
            stored = {o.name for o in after if o.kind in ("table", "materialized view")}
            pipeline.check_free(stored - catalog.objects.keys())
        catalog.become(after)
        faults.reach("alter-stored")
        if pipeline is None:
            return
        try:
            pipeline.attach(list(catalog), resources.store.plan)
        except FencedError:
            raise
        except BaseException:
            catalog.become(before)
            pipeline.attach(list(catalog), resources.store.plan)
            raise

    def drop(self, statement: st.Drop) -> Result:
        """Run a DROP statement."""
        catalog = self._resources.catalog
        doomed: dict[str, Object] = {}
        for name in statement.names:
            if catalog.objects.get(name.name) is None and statement.if_exists:
                continue
            object = catalog.names().find(name, broken=True)
            if object.kind != statement.kind:
                raise SqlError(
                    f'"{name}" is a {object.kind}, not a {statement.kind}',
                    place=name.place,
                    remedy=f"DROP {object.kind.upper()} {name}",
                )
            dependents = [o for o in catalog.dependents(object) if o.kind != Index.kind]
            if dependents and not statement.cascade:
                listed = ", ".join(f"{o.kind} {o.name}" for o in dependents)
                raise SqlError(
                    f"{object.kind} {name} is needed by {listed}",
                    place=name.place,
                    remedy="drop those first, or use CASCADE",
                )
            doomed |= {o.name: o for o in [object, *catalog.dependents(object)]}
        self._cancel_over(doomed.values(), statement)
        if doomed:
            self._discard(doomed)
            events = self._resources.events
            events.add("DROP_STREAM_JOB", kind=statement.kind, names=list(doomed))
        return Result(message=f"DROP {statement.kind.upper()}")

    def _cancel_over(self, doomed: Iterable[Object], statement: st.Drop) -> None:
        """Jobs that read what is dropped end, or stand in the way."""
        for job in self._jobs.over({o.key for o in doomed}):
            making = job.change.object
            if not statement.cascade:
                raise SqlError(
                    f"{making.kind} {making.name}, which is being made, needs it",
                    place=statement.place,
                    remedy=f"CANCEL JOBS {job.id}, or use CASCADE",
                )
            job.cancel()

    def _discard(self, doomed: Mapping[str, Object]) -> None:
        """Forget objects, then open the pipeline without them (they may be what keeps it from opening) and drop their
        tables. Where broken ones keep it from opening, tables stay until their name is used again."""
        resources = self._resources
        catalog, opened = resources.catalog, resources.opened
        resources.own()
        catalog.drop(list(doomed))
        if not any(takes_part(o) for o in doomed.values()) or catalog.broken():
            return
        if opened is not None:
            opened.attach(list(catalog), resources.store.plan)
        resources.pipeline.discard(list(doomed.values()))


def takes_part(object: Object) -> bool:
    """Whether an object takes part in epochs."""
    return object.kind in ("table", "materialized view", "sink", "connector")


def busy_error(job: Job, statement: st.Alter | st.CreateView) -> SqlError:
    """A job stands in the way of a statement."""
    return SqlError(
        f"job {job.id} reads {statement.name}, or may: {job.statement.splitlines()[0]}",
        place=statement.place,
        remedy=f"wait for it (SHOW JOBS), or CANCEL JOBS {job.id}",
    )
