"""What subscriptions promise, and what they are about."""

from __future__ import annotations

from collections.abc import Iterable

from icestream.catalog.catalog import Catalog
from icestream.catalog.objects import MaterializedView, Object, Subscription, Table
from icestream.errors import SqlError
from icestream.sql.statements import Name


def promised(objects: Iterable[Object]) -> dict[str, float]:
    """For how many seconds the changes of objects, by their keys, are to be kept."""
    found: dict[str, float] = {}
    for object in objects:
        if isinstance(object, Subscription):
            (key,) = object.depends
            found[key] = max(object.retention, found.get(key, 0.0))
    return found


def followed(name: str, catalog: Catalog) -> tuple[Subscription, Table | MaterializedView]:
    """The subscription of that name, and the object whose changes it gives."""
    subscription = catalog.names().find(Name(name), Subscription)
    assert isinstance(subscription, Subscription)
    for object in catalog:
        if object.key in subscription.depends and isinstance(object, Table | MaterializedView):
            return subscription, object
    raise SqlError(f"what subscription {name} gives the changes of is gone")
