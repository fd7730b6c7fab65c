"""Starts the driver in the environment of a build: `ENV/bin/python …/drivers/vllm`.

Python looks for modules beside the program it runs, so the package below needs no installing.
"""

from slotproof_vllm.main import main  # type: ignore[import-not-found]  # found as it is run

if __name__ == "__main__":
    main()
