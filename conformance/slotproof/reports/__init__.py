"""Output forms of a trace: text, Markdown, HTML, a pytest file, a script and a bug report."""
