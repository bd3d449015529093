"""Settings without weights that modules of a model carry, and that an evaluation replaces for a while."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn


def having(model: nn.Module, name: str, kind: type) -> list[nn.Module]:
    """The modules of a model whose attribute of that name is of that kind."""
    return [module for module in model.modules() if isinstance(getattr(module, name, None), kind)]


@contextmanager
def replaced(modules: list[nn.Module], name: str, value: Any) -> Iterator[None]:
    """Gives an attribute of some modules another value; their own come back afterwards."""
    own = [getattr(module, name) for module in modules]
    try:
        for module in modules:
            setattr(module, name, value)
        yield
    finally:
        for module, before in zip(modules, own, strict=True):
            setattr(module, name, before)
