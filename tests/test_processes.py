"""Processes of tests are forks of the server that was forked when all tests were collected."""

import os
from multiprocessing import forkserver

from tests.patience import PATIENCE
from tests.processes import PROCESSES, _close_all_but


def _parent(answers) -> None:
    answers.put(os.getppid())


def test_processes_come_from_the_server_that_is_a_fork_of_this_process():
    server = forkserver._forkserver._forkserver_pid
    answers = PROCESSES.Queue()
    process = PROCESSES.Process(target=_parent, args=(answers,))
    process.start()
    assert answers.get(timeout=PATIENCE) == server  # not of one that was started anew because that one had died
    process.join(PATIENCE)


def test_all_files_but_those_that_are_named_are_closed():
    read, write = os.pipe()
    unnamed = os.dup(write)
    child = os.fork()
    if child == 0:
        try:
            _close_all_but(0, 1, 2, write)
            os.write(write, " ".join(map(str, filter(_is_open, range(unnamed + 1)))).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    kept = {int(place) for place in os.read(read, 1000).decode().split()}
    was_open = {place for place in (0, 1, 2) if _is_open(place)}
    for place in (read, write, unnamed):
        os.close(place)
    assert kept == {*was_open, write}


def _is_open(place: int) -> bool:
    try:
        os.fstat(place)
    except OSError:
        return False
    return True
