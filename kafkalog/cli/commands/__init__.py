"""The commands: one module for each, whose function ``command`` click runs.

A module has the name of its command, or the one that `kafkalog.cli.main.MODULES` has
for it. It is imported when its command is called, and imports what reads or writes logs
in the functions that need it, so that help and completion are quick.
"""
