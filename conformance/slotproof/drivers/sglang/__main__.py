"""Starts the driver in the environment of a build: `ENV/bin/python …/drivers/sglang`.

Python looks for modules beside the program it runs, so the package below needs no installing.
"""

from slotproof_sglang.main import main  # type: ignore[import-not-found]  # found as it is run

if __name__ == "__main__":  # a build may start processes that import this file again
    main()
