"""A vocabulary whose input tokens each have a type, as those of GPT-2 in conversations."""

from torch import Tensor

from repro.nn.vocabularies.vocabulary import Vocabulary


class TypedVocabulary(Vocabulary):
    """A vocabulary in which types are tokens too: a token goes in as the sum of its vector and that of its type.

    It has no parameters of its own, so that weights of a :class:`Vocabulary` fit.

    Args: as :class:`Vocabulary`.

    Source: Wolf et al. 2019, TransferTransfo; GPT-2 in the library transformers (``token_type_ids``).
    """

    def embed(self, ids: Tensor) -> Tensor:
        """Vectors ``(..., token_width)`` of pairs ``(..., 2)``: a token and its type.

        Raises:
            ValueError: ids without types.
        """
        if ids.shape[-1] != 2:
            raise ValueError(
                f"a typed vocabulary takes ids (..., 2), a token and its type, not {tuple(ids.shape)}"
            )
        return super().embed(ids).sum(-2)
