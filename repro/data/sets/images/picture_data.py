"""Base of datamodules of pictures: their store, and which of them are for validation."""

from abc import abstractmethod

from repro.data.core.examples import ExampleData
from repro.data.registry import DATA_SETS, find_data_set
from repro.data.sets.images.picture_sets import PictureSet
from repro.data.sets.images.pictures import Pictures, check_pictures
from repro.data.store import Store
from repro.data.store_data import StoreDataModule
from repro.errors import UserError


class PictureData(StoreDataModule, ExampleData):
    """Pictures of a store.

    Args:
        store: name of the data set.
        val_examples: training pictures that are for validation; 0 validates on the test pictures.
        batch_size, eval_batch_size, seed, num_workers: see :class:`ExampleData`.

    Raises:
        UserError: no store of pictures, or a negative number.
    """

    def __init__(
        self,
        store: str,
        val_examples: int,
        batch_size: int,
        eval_batch_size: int,
        seed: int,
        num_workers: int,
    ) -> None:
        super().__init__(batch_size, eval_batch_size, seed, num_workers)
        self.store_name, _, self.variant = store.partition("/")
        self.look = look_of(self.store_name)
        if val_examples < 0:
            raise UserError(f"val_examples must be at least 0, not {val_examples}")
        self.val_examples = val_examples
        self.val_split = "val" if val_examples else "test"

    def check(self, store: Store) -> None:
        """Refuses a store that holds no such pictures, or too few to take validation pictures from."""
        check_pictures(store, self.look.shape, self.val_examples)

    @abstractmethod
    def pictures(self, split: str) -> Pictures:
        """The pictures of a split."""

    def size(self, split: str) -> int:
        """Pictures of a split."""
        return len(self.pictures(split))


def look_of(store_name: str) -> PictureSet:
    """The picture data set of that name.

    Raises:
        UserError: no such data set, or it holds no pictures.
    """
    data_set = find_data_set(store_name)
    if not isinstance(data_set, PictureSet):
        those = ", ".join(item.name for item in DATA_SETS.values() if isinstance(item, PictureSet))
        raise UserError(f"{data_set.name} holds no pictures; data sets that do: {those}")
    return data_set
