"""SGLang's scheduler alone. `show --format script` makes a single file of the folder."""
