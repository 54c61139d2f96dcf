"""The pipeline's state as the read model shows it."""

from __future__ import annotations

import os

from icestream.observe.report import EpochReport
from icestream.observe.status import ObjectStatus, SourceStatus, Status
from icestream.runtime.pipeline import Pipeline


def status_of(
    pipeline: Pipeline, state: str, epoch: EpochReport | None = None, message: str | None = None
) -> Status:
    """What there is to say about a pipeline now."""
    record = pipeline.record
    health = pipeline.health
    if state == "running" and health.trouble is not None:
        state, message = "retrying", str(health.trouble)
    sources = [
        SourceStatus(
            feed.object.name,
            records=record.counters.get(f"{feed.key}.records", 0),
            dead_letters=record.counters.get(feed.key.dead_letters, 0),
            late=record.counters.get(f"{feed.key}.late", 0),
            errors=record.counters.get(f"{feed.object.key}.errors", 0),
            lag=pipeline.chooser.lags.get(feed.key),
            error=str(failure) if (failure := health.sources.get(feed.key)) else None,
            failing_since=failure.since if failure else None,
        )
        for feed in pipeline.plan.feeds
    ]
    objects = [
        ObjectStatus(
            task.key.replace(task.object.key, task.object.name),
            f"state of {task.object.kind}" if task.hidden else task.object.kind,
            rows=record.counters.get(task.key, 0),
            epoch=record.objects[task.key].epoch,
            table=record.objects[task.key].table,
            errors=0 if task.hidden else record.counters.get(f"{task.object.key}.errors", 0),
            error=str(failed) if (failed := health.sinks.get(task.key)) else None,
            failing_since=failed.since if failed else None,
        )
        for task in pipeline.plan.tasks
        if task.key in record.objects
    ]
    return Status(
        state,
        os.getpid(),
        record.epoch,
        epoch.seconds if epoch else 0,
        message=message,
        sources=sources,
        objects=objects,
    )
