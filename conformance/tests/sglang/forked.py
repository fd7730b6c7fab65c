"""Runner of scripts in forks of one process with SGLang imported, to save the import's time.

It runs in a build's environment. An input line is a script's path. An output line is its exit
status and output. It uses only the standard library, and imports the scripts' `harness`.
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
    os.dup2(2, 1)  # Output of SGLang's import must not mix with answers.
    sys.path.insert(0, sys.argv[1])
    importlib.import_module("harness")  # for the forks

    for line in sys.stdin:
        answers.write(json.dumps(run(line.rstrip("\n"))) + "\n")
        answers.flush()
