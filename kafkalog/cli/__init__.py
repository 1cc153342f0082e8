"""Floor 10: the command line, one module a command."""
