"""The build's own front end under several clients at once. See ../../README.md."""
