import os
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest
import threadpoolctl
import torch

from likewise.errors import InvalidSettings, Untrustworthy
from likewise.scale.executors import block_size, run_blocks


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_results_come_in_the_order_of_rows(threads):
    def function(rows):
        time.sleep(0.01 if rows.start % 20 == 0 else 0)  # later blocks finish first
        return list(range(rows.start, rows.stop))

    results = run_blocks(function, 95, size=10, threads=threads)
    assert [len(r) for r in results] == [10] * 9 + [5]
    assert [i for r in results for i in r] == list(range(95))


def test_no_rows_are_no_blocks():
    assert run_blocks(lambda rows: 1, 0, size=10, threads=2) == []


@pytest.mark.parametrize("threads", [1, 3])
def test_each_block_runs_on_one_torch_thread_and_the_setting_is_restored(threads):
    torch.set_num_threads(2)
    seen = run_blocks(lambda rows: torch.get_num_threads(), 30, size=5, threads=threads)
    assert seen == [1] * 6
    assert torch.get_num_threads() == 2


@pytest.mark.parametrize("threads", [1, 3])
def test_each_block_runs_on_one_thread_of_blas_and_the_setting_is_restored(threads):
    def blas():
        pools = threadpoolctl.threadpool_info()
        return {pool["num_threads"] for pool in pools if pool["user_api"] == "blas"}

    np.ones((2, 2)) @ np.ones((2, 2))  # whatever NumPy loads is there by now
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        seen = run_blocks(lambda rows: blas(), 30, size=5, threads=threads)
        assert seen == [{1}] * 6
        assert blas() == {2}


@pytest.mark.parametrize("threads", [2, 3])
def test_any_number_of_threads_gives_the_same_numbers_to_the_last_bit(threads, rng):
    a, x = rng.normal(size=(300, 300)), rng.normal(size=(500, 300))

    def block(rows):
        return np.tanh(x[rows] @ a) @ a.T

    one, more = (np.concatenate(run_blocks(block, 500, size=64, threads=t)) for t in (1, threads))
    assert np.array_equal(one, more)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_block_that_always_fails_ends_the_run_and_restores_the_setting(threads):
    begun = []

    def function(rows):
        begun.append(rows.start)
        if rows.start == 10:
            raise ZeroDivisionError("block 1")
        time.sleep(0.02)

    torch.set_num_threads(2)
    with pytest.raises(Untrustworthy, match=r"Block 1 failed 3 times \(last: .*block 1"):
        run_blocks(function, 1000, size=10, threads=threads)
    assert begun.count(10) == 3
    assert len(begun) < 20
    assert torch.get_num_threads() == 2


def test_ctrl_c_stops_a_threaded_run_promptly():
    code = """
        import time
        from likewise.scale.executors import run_blocks
        print("ready", flush=True)
        try:
            run_blocks(lambda rows: time.sleep(0.1), 100_000, size=1, threads=2)
        except KeyboardInterrupt:
            raise SystemExit(130)
    """
    child = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    child.stdout.readline()
    time.sleep(0.3)
    os.kill(child.pid, signal.SIGINT)
    # Two blocks of 0.1 s are under way; all 100 000 would take more than an hour.
    assert child.wait(timeout=30) == 130


def test_bad_sizes_are_refused():
    with pytest.raises(InvalidSettings):
        run_blocks(lambda rows: None, 10, size=0, threads=1)
    with pytest.raises(InvalidSettings):
        run_blocks(lambda rows: None, 10, size=1, threads=0)


def test_blocks_shrink_as_features_grow():
    sizes = [block_size(d) for d in (1, 39, 300, 2000, 10_000, 10**6)]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] >= 64
