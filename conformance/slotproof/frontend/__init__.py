"""A build's own front end under several clients: scripts, what clients must hear, two judges."""
