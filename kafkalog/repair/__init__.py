"""Repairs of damaged log directories, in place and undone on request."""
