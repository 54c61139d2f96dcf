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
    sources = [
        SourceStatus(
            feed.object.name,
            records=record.counters.get(f"{feed.key}.records", 0),
            dead_letters=record.counters.get(feed.dead_key, 0),
            late=record.counters.get(f"{feed.key}.late", 0),
            lag=pipeline.lags.get(feed.key),
            error=pipeline.failed_feeds.get(feed.key),
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
