"""Reading rows block by block, from the first to the last, with a memory that goes from block to block."""

from typing import NamedTuple

import torch
from torch import Tensor

from repro.models.decoder_lm import DecoderLM
from repro.nn.mixer import State, detach
from repro.nn.settings import AS_BUILT, CallSettings


def token_types(ids: Tensor, first: int) -> Tensor:
    """The last mark up to each token, itself included: the token whose embedding GPT-2 adds.

    Args:
        ids: whole rows ``(B, T)``, not blocks of them.
        first: the lowest id of a mark.

    Returns:
        ``(B, T)`` ids of marks; for tokens in front of the first mark of a row, the row's first token.
    """
    places = torch.arange(ids.shape[1], device=ids.device)
    return ids.gather(1, torch.where(ids >= first, places, 0).cummax(1).values)


class BlockPositions(NamedTuple):
    """The positions of the blocks of rows. Rows are cut from their ends, so that only the first block may be shorter.

    Rows that are shorter than others have empty blocks in front.

    Attributes:
        begins: place of the first token of each block, ``(B, n)``.
        sizes: tokens of each block, ``(B, n)``, at most the window.
        window: W.
    """

    begins: Tensor
    sizes: Tensor
    window: int

    @classmethod
    def from_lengths(cls, lengths: Tensor, longest: int, window: int) -> "BlockPositions":
        """Cuts rows.

        Args:
            lengths: of the rows, ``(B,)``.
            longest: a bound of them, which decides the number of blocks n.
            window: W.
        """
        behind = window * torch.arange(-(-longest // window) - 1, -1, -1, device=lengths.device)
        ends = (lengths[:, None] - behind).clamp(min=0)
        begins = (ends - window).clamp(min=0)
        return cls(begins, ends - begins, window)

    def take(self, rows: Tensor) -> Tensor:
        """The blocks ``(B, n, W, ...)`` of rows ``(B, T, ...)``; values after a block's tokens mean nothing."""
        steps = torch.arange(self.window, device=rows.device)
        places = (self.begins[..., None] + steps).clamp(max=rows.shape[1] - 1)
        row = torch.arange(len(rows), device=rows.device)[:, None, None]
        return rows[row, places]

    def places(self, row: Tensor, positions: Tensor) -> Tensor:
        """Positions of tokens among the flattened blocks ``(B·n·W,)``.

        Args:
            row: of each token, ``(M,)``.
            positions: its place in the row, ``(M,)``.
        """
        ends = self.begins + self.sizes
        block = (ends[row] <= positions[:, None]).sum(1)
        inside = positions - self.begins[row, block]
        return (row * self.begins.shape[1] + block) * self.window + inside


class ReadBlocks(NamedTuple):
    """A network's outputs for blocks.

    Attributes:
        y: hidden states ``(B, n, W, D)``, meaningless behind a block's tokens.
        state: behind the last block; None where there is no memory.
        aux: auxiliary loss of each row, the mean over its blocks, ``(B,)``; or None.
    """

    y: Tensor
    state: State
    aux: Tensor | None


def read_blocks(
    net: DecoderLM,
    ids: Tensor,
    cut: BlockPositions,
    remembers: bool,
    pad: int,
    settings: CallSettings = AS_BUILT,
    memory: State = None,
) -> ReadBlocks:
    """Reads the blocks of rows in order.

    The memory is empty at the first block and carried without gradient. A memory takes whole windows: padding that
    stands alone in front of a row fills its first block up, so that every block is in the memory when the next one is
    read. Each row is read as if it were alone.

    Args:
        net: the network; learned positions restart in each call (:class:`repro.nn.Added`).
        ids: ids of each token, ``(B, T, ...)``.
        cut: positions of the blocks.
        remembers: whether the network has a memory; one without reads all blocks at once.
        pad: id of padding.
        settings: of every call.
        memory: the empty memory where more blocks follow than ``cut`` has; None makes that of ``cut``.
    """
    blocks = cut.take(ids)
    if not remembers:
        mixed = net(blocks.flatten(0, 1), None, cut.sizes.flatten(), settings)
        return ReadBlocks(mixed.y.unflatten(0, cut.sizes.shape), None, _mean(mixed.aux, cut))
    state = empty_memory(net, ids, cut, pad, settings) if memory is None else memory
    hidden, losses = [], []
    for block, sizes in zip(blocks.unbind(1), cut.sizes.unbind(1), strict=True):
        mixed = net(block, state, sizes, settings)
        state = detach(mixed.state)
        hidden.append(mixed.y)
        losses.append(mixed.aux)
    aux = None if losses[0] is None else torch.stack([loss for loss in losses if loss is not None], 1)
    return ReadBlocks(torch.stack(hidden, 1), state, _mean(aux, cut))


@torch.no_grad()
def empty_memory(
    net: DecoderLM, ids: Tensor, cut: BlockPositions, pad: int, settings: CallSettings = AS_BUILT
) -> State:
    """A memory that has read as much padding as the first block of each row lacks; see :func:`read_blocks`."""
    missing = -cut.sizes.sum(1) % cut.window
    padding = ids.new_full((len(ids), cut.window, *ids.shape[2:]), pad)
    return net(padding, net.init_state(len(ids), settings=settings), missing, settings).state


def _mean(aux: Tensor | None, cut: BlockPositions) -> Tensor | None:
    """The mean over the blocks of each row, of losses of all blocks in order."""
    if aux is None:
        return None
    present = cut.sizes > 0
    return (aux.view(present.shape) * present).sum(1) / present.sum(1).clamp(min=1)
