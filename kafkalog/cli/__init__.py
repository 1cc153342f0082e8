"""The command line: the group of commands, and the options and output they share."""
