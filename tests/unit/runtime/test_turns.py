"""Turns are taken in the order in which threads came."""

from __future__ import annotations

import threading

from icestream.runtime.turns import Turns


def test_who_waits_longest_is_next_even_if_the_owner_comes_back() -> None:
    turns, order = Turns(), []
    threads = []
    with turns:
        for number in range(5):

            def work(number: int = number) -> None:
                with turns, turns:
                    order.append(number)

            thread = threading.Thread(target=work)
            thread.start()
            while len(turns._waiting) <= number:
                thread.join(0.001)
            threads.append(thread)
    with turns:
        order.append(99)
    for thread in threads:
        thread.join(10)
    assert order == [0, 1, 2, 3, 4, 99]


def test_it_is_free_after_an_error() -> None:
    turns = Turns()
    try:
        with turns:
            raise ValueError
    except ValueError:
        pass
    done = threading.Event()

    def work() -> None:
        with turns:
            done.set()

    threading.Thread(target=work).start()
    assert done.wait(10)
