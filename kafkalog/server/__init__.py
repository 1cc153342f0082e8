"""The sockets of a server, in one thread."""
