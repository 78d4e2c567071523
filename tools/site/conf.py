"""Sphinx's configuration of the site; tools/site/make.py puts its pages together."""

project = "Regard"
extensions = ["myst_parser"]
root_doc = "index"
html_theme = "furo"
html_title = "Regard"
html_show_copyright = False
html_copy_source = False
myst_heading_anchors = 6  # anchors as on GitHub, which the pages' links use
pygments_style = "default"
highlight_language = "text"
suppress_warnings = [
    "misc.highlighting_failure",  # console output is not always what its language allows
    "myst.header",  # a page of the API reference begins at a deeper heading
]
