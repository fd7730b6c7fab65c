"""An iteration: intake, admission, the batch, rounds, the memory check."""
