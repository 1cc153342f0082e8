"""Settings of Sphinx, with which `make docs` builds docs/_build/html from these pages.

The notebook is executed with each build; an exception in a cell fails it. The API page
is made from the docstrings.
"""

from __future__ import annotations

import kafkalog

project = "kafkalog"
author = "the kafkalog authors"
version = release = kafkalog.__version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "numpydoc"]
exclude_patterns = ["_build"]
default_role = "py:obj"  # a name in single backticks links to its entry
myst_heading_anchors = 3

nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 300

autodoc_typehints = "signature"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
python_maximum_signature_line_length = 88
python_use_unqualified_type_names = True

html_theme = "alabaster"
html_theme_options = {"description": "Kafka's log directories as columns"}
man_pages = [("cli", "kafkalog", "Kafka's log directories as columns", author, 1)]
