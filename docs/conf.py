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

html_theme = "sphinx_book_theme"
html_title = "kafkalog"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = html_show_sourcelink = False
html_use_index = html_domain_indices = False  # the search finds names
html_theme_options = {
    "navbar_persistent": [],  # the search is above the menu, or above the page
    "show_toc_level": 2,
    "use_download_button": False,
    "use_fullscreen_button": False,
}
man_pages = [("cli", "kafkalog", "Kafka's log directories as columns", author, 1)]
