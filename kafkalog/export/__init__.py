"""Records as tables of other libraries, as files and as text."""
