"""Forms of a trace: text, pages, tests, scripts, upstream reports."""
