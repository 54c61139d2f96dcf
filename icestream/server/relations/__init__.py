"""What clients ask of pg_catalog, information_schema and rw_catalog, answered without the engine.

    relations = SystemRelations(model)         model: a function that gives the `Model` as it is now
    if is_about_the_system(sql):
        relations.query(sql, parameters, session)

The text of a client is rewritten for DuckDB, which runs it over relations made from the model.
"""

from icestream.server.relations.errors import SystemQueryError
from icestream.server.relations.model import Model, Session
from icestream.server.relations.relations import (
    Description,
    Result,
    ResultColumn,
    SystemRelations,
    is_about_the_system,
    may_be_about_the_system,
)

__all__ = [
    "Description",
    "Model",
    "Result",
    "ResultColumn",
    "Session",
    "SystemQueryError",
    "SystemRelations",
    "is_about_the_system",
    "may_be_about_the_system",
]
