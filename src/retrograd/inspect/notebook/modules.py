"""The HTML of a module in a notebook: a foldable tree with shapes, numbers of parameters and memory."""

from __future__ import annotations

from html import escape

from ...core.tensor.tensor import Tensor
from ...nn.base.module import Module
from ...nn.base.uninitialized import Uninitialized
from ..drawing.figures import byte_text, figures, number, shape_text

STYLE = """
.rg-module{display:inline-block;min-width:min(680px,100%);max-width:100%;box-sizing:border-box;overflow-x:auto;
border:1px solid rgba(128,128,128,.4);border-radius:8px;padding:8px 12px;font:13px/1.6 system-ui,sans-serif}
.rg-module .row{display:flex;gap:12px;white-space:nowrap}
.rg-module summary.row{list-style:none;cursor:pointer}.rg-module summary::-webkit-details-marker{display:none}
.rg-module .row::before{content:"";flex:none;width:10px;margin-right:-6px}
.rg-module summary.row::before{content:"▸"}.rg-module details[open]>summary.row::before{content:"▾"}
.rg-module .in{margin-left:4px;padding-left:12px;border-left:1px solid rgba(128,128,128,.3)}
.rg-module .name{flex:1;min-width:12em;overflow:hidden;text-overflow:ellipsis}
.rg-module i{font-style:normal;opacity:.75}
.rg-module .row>u{flex:none;text-decoration:none;text-align:right;font-variant-numeric:tabular-nums;width:6em}
.rg-module .row>u:nth-of-type(1){width:11em}.rg-module .row>u:nth-of-type(3){width:8em}
"""


def module_html(module: Module) -> str:
    """Return the HTML of a module."""
    head = _row("div", "", "<i>parameters</i>", "<i>memory</i>", "<i>gradient</i>")
    return f'<div class="rg-module"><style>{STYLE}</style>{head}{_tree(module, "", _shared(module), True)}</div>'


def _tree(module: Module, name: str, shared: set[int], opened: bool = False) -> str:
    extra = " ".join(module.extra_repr().split())
    title = f"<b>{escape(name)}</b> " if name else ""
    label = f"{title}{escape(type(module).__name__)} <i>{escape(extra)}</i>"
    parameters = list({id(p): p for p in module.parameters()}.values())
    buffers = list({id(b): b for b in module.buffers()}.values())
    sizes = [p.array.size for p in parameters if not isinstance(p, Uninitialized)]
    count = f"{sum(sizes):,}" + (" + lazy" if len(sizes) < len(parameters) else "")
    frozen = sum(p.array.size for p in parameters if not isinstance(p, Uninitialized) and not p.requires_grad)
    if frozen:
        count += f" ({frozen:,} frozen)"
    memory = sum(x.nbytes for x in (*parameters, *buffers) if not isinstance(x, Uninitialized))
    own: list[tuple[str, str, Tensor]] = [
        ("parameter", key, x) for key, x in module._parameters.items() if x is not None
    ]
    own += [("buffer", key, x) for key, x in module._buffers.items() if x is not None]
    inside = [_tensor(kind, key, x, shared) for kind, key, x in own]
    inside += [_tree(child, key, shared) for key, child in module._modules.items() if child is not None]
    row = _row("summary" if inside else "div", label, count, byte_text(memory), "")
    if not inside:
        return row
    return f'<details{" open" if opened else ""}>{row}<div class="in">{"".join(inside)}</div></details>'


def _tensor(kind: str, name: str, x: Tensor, shared: set[int]) -> str:
    if isinstance(x, Uninitialized):
        return _row("div", f"{escape(name)} <i>not initialized</i>", "", "", "")
    marks = [shape_text(x.shape), x.dtype.name]
    if str(x.device) != "cpu":
        marks.append(str(x.device))
    marks += ["buffer"] * (kind == "buffer") + ["shared"] * (id(x) in shared)
    marks += ["frozen"] * (kind == "parameter" and not x.requires_grad)
    gradient = ""
    if x._grad is not None:
        found = figures(x._grad)
        gradient = f"⚠ {found.alarm}" if found.alarm else f"norm {number(found.norm)}"
    count = f"{x.array.size:,}" if kind == "parameter" else ""
    label = f"{escape(name)} <i>{escape(' · '.join(marks))}</i>"
    return _row("div", label, count, byte_text(x.nbytes), gradient)


def _row(element: str, label: str, count: str, memory: str, gradient: str) -> str:
    numbers = f"<u>{count}</u><u>{memory}</u><u>{gradient}</u>"
    return f'<{element} class="row"><span class="name">{label}</span>{numbers}</{element}>'


def _shared(module: Module) -> set[int]:
    """Return the ids of Parameters that occur more than once."""
    seen: set[int] = set()
    found: set[int] = set()
    places: list[object] = [x for child in module.modules() for x in child._parameters.values() if x is not None]
    for x in places:
        (found if id(x) in seen else seen).add(id(x))
    return found
