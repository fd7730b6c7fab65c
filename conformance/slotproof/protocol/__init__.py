"""The engine protocol (docs/reference/protocol.md): commands in, snapshots out."""
