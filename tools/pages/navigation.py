"""Write the site's navigation into every page, without resolving its tree for each of a thousand pages.

Sphinx and furo do so, which takes most of the time of a build. Here the tree is resolved once, for the site's root; a
page gets it with addresses relative to the page, and with the sections around the page marked as furo marks them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx

ITEM = re.compile(r'<li class="|</li>|<a class="reference internal" href="([^"#]+)"')
ADDRESS = re.compile(r'(<a class="[^"]*" href=")(?!#|\w+:)')


class Navigation:
    """The navigation at a site's root, and for each address in it the places of the list items around it."""

    def __init__(self, html: str) -> None:
        self.html = html
        self.around: dict[str, list[int]] = {}
        items: list[int] = []
        for match in ITEM.finditer(html):
            if match[1]:
                self.around[match[1]] = list(items)
            elif match[0] == "</li>":
                items.pop()
            else:
                items.append(match.start())

    def of(self, page: str, section: str) -> str:
        """Return the navigation of a page, in which a section, often the page itself, is the current one."""
        html, mark = self.html, "current current-page"
        for place in reversed(self.around.get(section, [])):
            item = html[place:].replace('<li class="', f'<li class="{mark} ', 1)
            if "has-children" in item.partition(">")[0]:
                item = item.replace("<input ", '<input checked="" ', 1)
            html, mark = html[:place] + item, "current"
        html = html.replace(f'class="reference internal" href="{page}"', 'class="current reference internal" href="#"')
        return ADDRESS.sub(rf"\g<1>{'../' * page.count('/')}", html)


def connect(app: Sphinx) -> None:
    """Replace furo's navigation, which it computes at the default priority, 500."""
    app.connect("html-page-context", without_tree, priority=499)
    app.connect("html-page-context", with_tree, priority=501)


def without_tree(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: object) -> None:
    context["toctree"] = lambda **options: ""


def with_tree(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: object) -> None:
    section = app.env.metadata[page].get("section", page)
    context["furo_navigation_tree"] = navigation(app).of(f"{page}.html", f"{section}.html")


def navigation(app: Sphinx) -> Navigation:
    """Return the navigation of the site that is being built; worker processes inherit it from the first page."""
    from furo.navigation import get_navigation_tree
    from sphinx.environment.adapters.toctree import global_toctree_for_doc

    if not hasattr(app, "navigation"):
        tree = global_toctree_for_doc(
            app.env, app.config.root_doc, app.builder, tags=app.tags, titles_only=True, maxdepth=-1
        )
        html = "" if tree is None else app.builder.render_partial(tree)["fragment"]
        app.navigation = Navigation(get_navigation_tree(html))
    return app.navigation
