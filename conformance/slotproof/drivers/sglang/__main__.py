"""Entry point of the driver in the environment of a build: `ENV/bin/python …/drivers/sglang`.

Python searches the program's folder for modules, so the package needs no installation.
"""

from slotproof_sglang.main import main  # type: ignore[import-not-found]  # found as it is run

if __name__ == "__main__":  # A build may start processes that import this file again.
    main()
