"""Parts of an iteration: intake, admission, batches, decoding rounds and the memory check."""
