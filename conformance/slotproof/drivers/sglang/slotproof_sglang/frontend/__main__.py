"""Starts the front end: `PYTHONPATH=…/drivers/sglang ENV/bin/python -m slotproof_sglang.frontend`.

The build's `Engine` starts its scheduler and its detokenizer as processes that import what they
run, and not this file: so the program is started by its name.
"""

from .main import main

if __name__ == "__main__":
    main()
