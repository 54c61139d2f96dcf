"""A pipeline's loop in a thread of its own."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from icestream.home_log import log_failure

_LOG = logging.getLogger(__name__)


class Background:
    """Runs a loop until it is told to stop. What ends it otherwise is remembered."""

    def __init__(
        self,
        run: Callable[[threading.Event], None],
        ended: Callable[[BaseException], None] = lambda error: None,
    ) -> None:
        """`ended` is told of a failure at once."""
        self.failed: BaseException | None = None
        """What ended the loop, if something did."""
        self._run = run
        self._ended = ended
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="icestream-pipeline", daemon=True)

    @property
    def stopping(self) -> bool:
        """Whether it was told to stop."""
        return self._stop.is_set()

    def start(self) -> None:
        """Begin; once it runs, nothing happens."""
        if self._thread.ident is None:
            self._thread.start()

    def stop(self) -> None:
        """Stop at the end of the epoch."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def check(self) -> None:
        """Raise what ended the loop."""
        if self.failed is not None:
            raise self.failed

    def _loop(self) -> None:
        try:
            self._run(self._stop)
        except BaseException as error:
            self.failed = error
            log_failure(_LOG, "the loop of the pipeline has ended", level=logging.ERROR)
            self._ended(error)
