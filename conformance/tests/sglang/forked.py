"""Runs scripts in forks of a process that has imported SGLang once: that takes most of their time.

Started in a build's environment. A line in is a script's path; a line out is its exit status
and what it wrote. Standard library only; `harness` is the scripts' own.
"""

import importlib
import json
import os
import runpy
import sys
import tempfile
import traceback


def run(path: str) -> dict[str, object]:
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        child = os.fork()
        if child == 0:
            os.dup2(out.fileno(), 1)
            os.dup2(err.fileno(), 2)
            try:
                runpy.run_path(path, run_name="__main__")  # ends the process itself
            except BaseException:  # noqa: BLE001  # a child must not go on as its parent
                traceback.print_exc()
            os._exit(3)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        out.seek(0)
        err.seek(0)
        return {"status": status, "stdout": out.read(), "stderr": err.read()}


if __name__ == "__main__":
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what SGLang prints while it is imported is no answer
    sys.path.insert(0, sys.argv[1])
    importlib.import_module("harness")  # for the forks

    for line in sys.stdin:
        answers.write(json.dumps(run(line.rstrip("\n"))) + "\n")
        answers.flush()
