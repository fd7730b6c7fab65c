"""SGLang's scheduler alone; `show --format script` makes one file of it."""
