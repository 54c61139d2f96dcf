"""CREATE: objects are learnt, made real in the pipeline together, then kept in the store."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from icestream import interrupts
from icestream.catalog.catalog import Change
from icestream.catalog.objects import Sink
from icestream.catalog.replace import plain, redefined, replacement
from icestream.catalog.show import delivery
from icestream.engine.alterations import Alterations, busy_error, takes_part
from icestream.engine.home_resources import HomeResources
from icestream.errors import ConnectorError, FencedError, IcestreamError, SqlError
from icestream.home_log import log_failure, log_suppressed
from icestream.jobs import Job, Jobs
from icestream.plan.explain_stages import notices
from icestream.result import Result
from icestream.runtime.writes import Writes
from icestream.sql import parse
from icestream.sql import statements as st

if TYPE_CHECKING:
    from icestream.runtime.outside_answers import Answers

_LOG = logging.getLogger(__name__)


class Definitions:
    """Creates objects."""

    def __init__(
        self, resources: HomeResources, jobs: Jobs, writes: Writes, alterations: Alterations
    ) -> None:
        self._resources = resources
        self._jobs = jobs
        self._writes = writes
        self._alterations = alterations

    @contextmanager
    def ask_ahead(self, statement: st.Statement) -> Iterator[Answers | None]:
        """Plan a creation before its turn, and ask outside what it needs: epochs and other statements go on meanwhile."""
        pipeline, catalog = self._resources.opened, self._resources.catalog
        with catalog.examine_ahead(statement) as change:
            if change.exists or not takes_part(change.object) or pipeline is None:
                yield None
            else:
                yield pipeline.ask_new([*catalog, change.object])

    def create(
        self,
        statement: st.Statement,
        pending: list[Change],
        started: list[Job],
        background: bool | None = None,
    ) -> Result:
        """Learn an object, or begin with a job that makes it: `pending` and `started` get them."""
        catalog, said = self._resources.catalog, statement
        if isinstance(statement, st.CreateView) and statement.or_replace:
            statement = plain(statement, catalog)
        change = catalog.examine(statement)
        kind, name = change.object.kind, change.object.name
        if not change.exists:
            self._begin(change, pending, started, background)
            return self._describe(change)
        if change.difference:
            if said is not statement:
                self.apply(pending)
                return self._replace(said, change, started, background)
            if getattr(statement, "if_not_exists", False):
                return Result(message=f"{kind} {name} exists and differs; left as it is")
            raise SqlError(
                f"{kind} {name} exists and differs:\n    " + "\n    ".join(change.difference),
                place=statement.place,
                remedy=f"DROP {kind.upper()} {name} first (CASCADE drops what stands on it), or restore the old text",
            )
        if catalog.renew_secrets(change):
            return Result(message=f"{kind} {name}: secrets updated")
        return Result(message=f"{kind} {name} is unchanged")

    def _begin(
        self, change: Change, pending: list[Change], started: list[Job], background: bool | None
    ) -> None:
        """Begin with a new object: as a job, if the pipeline runs and there is history to fill it with."""
        resources, new = self._resources, change.object
        if isinstance(new, Sink) and new.into is not None:
            # An UPDATE from before the sink has whole rows, which must not undo what the sink brings.
            self._writes.see([new.into.key], paused=lambda: None)
        if change.replaces is None and not (resources.live and self._jobs.has_history(new)):
            resources.catalog.learn(change)
            pending.append(change)
            return
        if background is None:
            background = resources.is_on("background_ddl")
        job = self._jobs.submit(change, background=background)
        if not background:
            started.append(job)

    def _describe(self, change: Change) -> Result:
        kind, name = change.object.kind, change.object.name
        note = delivery(change.object)
        for text in notices(getattr(change.object, "stages", ()), f"{kind} {name}"):
            self._resources.notice(text)
        return Result(message=f"CREATE {kind.upper()} {name}{f' ({note})' if note else ''}")

    def _replace(
        self, said: st.Statement, change: Change, started: list[Job], background: bool | None
    ) -> Result:
        """CREATE OR REPLACE of a view that is there and differs."""
        assert isinstance(said, st.CreateView)
        catalog = self._resources.catalog
        old = catalog.objects[change.object.name]
        if old.kind != change.object.kind:
            raise SqlError(
                f'"{old.name}" is a {old.kind}, not a {change.object.kind}', place=said.place
            )
        result = self._describe(change)
        if not said.materialized:
            for job in self._jobs:
                raise busy_error(job, said)
            self._alterations.become(redefined(change, catalog))
        elif self._resources.live:
            self._begin(replacement(said, change, catalog), [], started, background)
        else:
            self._resources.open()
            self._jobs.do(replacement(said, change, catalog))
        return result

    def apply(self, pending: list[Change]) -> None:
        """Make learnt objects real: tables, start positions, the log; then the store."""
        if not pending:
            return
        self._resources.own()
        names = [c.object.name for c in pending]
        if any(takes_part(c.object) for c in pending):
            self._attach()
        self._resources.catalog.keep(names)
        pending.clear()

    def _attach(self) -> None:
        resources = self._resources
        opened = resources.opened is not None
        pipeline, catalog = resources.pipeline, resources.catalog
        if opened or catalog.stored.keys() != {o.name for o in resources.store.objects()}:
            pipeline.attach(list(catalog), resources.store.plan + 1)

    def forget(self, pending: list[Change]) -> None:
        """Undo what was learnt and not applied."""
        resources = self._resources
        resources.catalog.forget([c.object.name for c in pending])
        if pending and resources.opened is not None:
            with interrupts.shield(), log_suppressed(_LOG, "not attached again", IcestreamError):
                resources.opened.attach(list(resources.catalog), resources.store.plan)

    def resume_jobs(self) -> None:
        """Take up again what was under way in the background when the engine stopped; what else there was is gone.

        Each gets a new id: a predecessor that was paused may still hold tables of the old one.
        """
        resources = self._resources
        catalog, store = resources.catalog, resources.store
        with resources.turns:
            resources.pipeline.sweep({o.key for o in catalog})
            catalog.next_id = max(catalog.next_id, store.next_id())
            for id, text, _ in store.jobs():
                pending: list[Change] = []
                try:
                    for statement in parse(text, "", {}):
                        self.create(statement, pending, [], background=True)
                    self.apply(pending)
                except FencedError:
                    raise
                except IcestreamError as error:
                    log_failure(_LOG, "job %d cannot be taken up again", id)
                    catalog.forget([c.object.name for c in pending])
                    resources.notice(f"job {id} cannot be taken up again: {error.message}")
                    if isinstance(error, ConnectorError):
                        continue  # the next start may
                store.end_job(id)  # it has another id now
