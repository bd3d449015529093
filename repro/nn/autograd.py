"""The context that torch passes from the forward to the backward pass of a function, with types."""

from torch import Tensor
from torch.autograd.function import FunctionCtx


class Context(FunctionCtx):
    """The first argument of both passes; a function's own subclass names what else it keeps.

    Attributes:
        saved_tensors: what ``save_for_backward`` was given.
        needs_input_grad: for each argument of the forward pass, whether it wants a gradient.
    """

    saved_tensors: tuple[Tensor, ...]
    needs_input_grad: tuple[bool, ...]
