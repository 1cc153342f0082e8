"""How Sphinx makes docs/_build/html of these pages; `make docs` calls it."""

from __future__ import annotations

import kafkalog

project = "kafkalog"
author = "the kafkalog authors"
version = release = kafkalog.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
myst_heading_anchors = 3
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
napoleon_google_docstring = False
html_theme = "alabaster"
html_theme_options = {"description": "Kafka's log directories as columns"}
man_pages = [("cli", "kafkalog", "Kafka's log directories as columns", author, 1)]
