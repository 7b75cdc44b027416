"""One BLAS thread for small matrices, and the process's own number afterwards."""

from __future__ import annotations

import os
import subprocess
import sys

_OVERLAP = """
import threading
from threadpoolctl import ThreadpoolController
import numpy
from kshot.inference.threads import one_thread

def threads():
    return [each["num_threads"] for each in ThreadpoolController().info() if each["user_api"] == "blas"]

before = threads()
first_in, second_in, first_out, second_out = (threading.Event() for _ in range(4))

def first():
    with one_thread(10, 20):
        first_in.set()
        second_in.wait(30)
    first_out.set()
    second_out.wait(30)  # alive, as the threads of a pool are

def second():
    first_in.wait(30)
    with one_thread(10, 20):
        second_in.set()
        first_out.wait(30)
        assert set(threads()) == {1}, "the second is still inside"
    second_out.set()

both = [threading.Thread(target=run) for run in (first, second)]
for each in both:
    each.start()
for each in both:
    each.join()
print(before == threads(), max(before))
"""


def test_contexts_of_two_threads_that_overlap_leave_the_number_of_threads_as_it_was() -> None:
    environment = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    environment["OPENBLAS_NUM_THREADS"] = "2"  # whatever the machine has
    run = subprocess.run(
        [sys.executable, "-c", _OVERLAP], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.split() == ["True", "2"] and not run.stderr
