"""The façade: `Engine.execute(sql)` gives results; `Engine.run()` advances the pipeline.

engine.py             the façade: what the server, the CLI and Python use
home_resources.py     the lock, the Spark session and the pipeline, each opened at first use
statement_runner.py   scripts: turns, and which handler a statement goes to
definitions.py        CREATE, and jobs that are taken up again
alterations.py        ALTER, DROP, PAUSE, RESUME
home_queries.py       queries: which epoch they see, and whether Spark is needed
home_writes.py        INSERT, UPDATE, DELETE
epoch_service.py      epochs, for the loop and for statements, and the status file
"""

from icestream.engine.engine import Engine
from icestream.engine.statement_runner import CREATE

__all__ = ["CREATE", "Engine"]
