"""Data sets of pictures. Standard library only."""

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from repro.data.store.data_set import Hub, OneStore
from repro.data.store.manifest import Manifest
from repro.data.store.options import Options

if TYPE_CHECKING:
    from repro.data.images.image_files import Splits
    from repro.data.store.store_writer import StoreWriter


@dataclass(frozen=True, kw_only=True)
class PictureSet(OneStore):
    """Pictures of one shape.

    Attributes:
        shape: height, width and channels of each.
        n_classes: classes they are labelled with; 0 where they have no labels.
    """

    parts: tuple[str, ...] = ("images", "labels")
    levels: tuple[str, ...] = ("pixels",)
    splits: tuple[str, ...] = ("train", "test")
    shape: tuple[int, int, int]
    n_classes: int = 0


@dataclass(frozen=True, kw_only=True)
class LabelledPictures(PictureSet):
    """Pictures with labels, a split of which is read at once.

    Attributes:
        columns: names of picture and label on the hub.
        lossy: SHA-256 of the test pictures of copies in which some are not the original ones, and how many.
    """

    columns: tuple[str, str]
    lossy: dict[str, int] = field(default_factory=dict)

    def fill(self, writer: "StoreWriter", variant: str, options: Options) -> Manifest:
        from repro.data.images.image_store import fill_pictures

        return fill_pictures(self, writer, variant, options)

    @abstractmethod
    def read(self, folder: Path) -> "Splits":
        """The pictures of the original files.

        Raises:
            UserError: a file is missing, damaged, or holds something else.
        """

    @abstractmethod
    def contents(self, splits: "Splits") -> Iterator[tuple[str, bytes]]:
        """Contents of the known files if they had these pictures, by key."""

    def arranged(self, splits: "Splits") -> "Splits":
        """The pictures of the hub in the order of the original files."""
        return splits


class Mnist(LabelledPictures):
    """MNIST's idx files."""

    def read(self, folder: Path) -> "Splits":
        from repro.data.images.image_files import read_mnist

        return read_mnist(folder, self.shape)

    def contents(self, splits: "Splits") -> Iterator[tuple[str, bytes]]:
        from repro.data.images.image_files import mnist_contents

        return mnist_contents(splits)


class Cifar10(LabelledPictures):
    """CIFAR-10 as flat bytes or in its original Python version."""

    def read(self, folder: Path) -> "Splits":
        from repro.data.images.image_files import read_cifar10

        return read_cifar10(folder, self.shape)

    def contents(self, splits: "Splits") -> Iterator[tuple[str, bytes]]:
        from repro.data.images.image_files import cifar10_contents

        return cifar10_contents(splits)

    def arranged(self, splits: "Splits") -> "Splits":
        """The hub has the five files in the order in which they lay in an archive."""
        from repro.data.images.image_files import in_file_order

        return {**splits, "train": in_file_order(self.sha256, splits["train"])}


@dataclass(frozen=True, kw_only=True)
class PictureArchives(PictureSet):
    """Pictures without labels in archives, read one picture at a time.

    Attributes:
        archives: the name of the archive of each split, without the end.
        examples: how many pictures each has.
    """

    parts: tuple[str, ...] = ("images",)
    archives: dict[str, str]
    examples: dict[str, int]

    def fill(self, writer: "StoreWriter", variant: str, options: Options) -> Manifest:
        from repro.data.images.image_store import fill_archives

        return fill_archives(self, writer, variant, options)


_MNIST = Mnist(
    name="mnist",
    title="MNIST: handwritten digits, 28 x 28, grey (LeCun, Cortes, Burges)",
    licence="Creative Commons Attribution-ShareAlike 3.0, as commonly stated for it",
    size="12 MB (55 MB unpacked), 60,000 training pictures",
    shape=(28, 28, 1),
    n_classes=10,
    columns=("image", "label"),
    hub=Hub("ylecun/mnist", splits={"train": "train", "test": "test"}),
    files=(
        "train-images-idx3-ubyte",
        "train-labels-idx1-ubyte",
        "t10k-images-idx3-ubyte",
        "t10k-labels-idx1-ubyte",
    ),
    sha256={
        "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    },
)
_CIFAR10 = Cifar10(
    name="cifar10",
    title="CIFAR-10: photographs of ten things, 32 x 32, in colour (Krizhevsky 2009)",
    licence="none stated by its maker; cite Krizhevsky 2009",
    size="170 MB (185 MB unpacked), 50,000 training pictures",
    shape=(32, 32, 3),
    n_classes=10,
    columns=("img", "label"),
    lossy={"4674ac8c77f372061aaf9216c8857c99599d5df0bb9f6b16a3de613ef8eb348a": 23},
    hub=Hub("uoft-cs/cifar10", splits={"train": "train", "test": "test"}),
    files=(*(f"data_batch_{n}" for n in range(1, 6)), "test_batch"),
    sha256={
        "train-images-1": "fc115a3de050d667b88cbd5b0b9612ebf996c54230fe7758f3a14bb5af9a1c27",
        "train-images-2": "89e609b642f687bc796fa3bfa4211005582a0e8131d463d996d11ddb297d312e",
        "train-images-3": "93a365823e61729490a8801d80864ccd0ab1e8c98f19d71af65644d1c5f1486e",
        "train-images-4": "809eb95ecd057a36516318f5023ea619009dd70dd38193db9da43125a928e6fa",
        "train-images-5": "d05b7d66d216d6df882cc760cdc0ff2f1f0437abf699ed16005c021ef0add9cb",
        "train-labels": "2b7cd2f24487317614016b72ffd53071c3062f592f0eb300c18a770d41ae1253",
        "test-labels": "cec8a24a1e92aa2ecaa0bbd3dbfa86bf6cd8759fbd209a832824c8cf0afca9d5",
    },
)
_IMAGENET64 = PictureArchives(
    name="imagenet64",
    title="downsampled ImageNet, 64 x 64, in colour, without labels (van den Oord et al. 2016)",
    licence="ImageNet's terms: research, non-commercial; the pictures belong to their owners",
    size="12 GB (16 GB unpacked), 1,281,149 training pictures",
    shape=(64, 64, 3),
    archives={"train": "train_64x64", "val": "valid_64x64"},
    examples={"train": 1_281_149, "val": 49_999},
    splits=("train", "val"),
    aliases={"test": "val"},
    files=("train_64x64.tar", "valid_64x64.tar"),
)
PICTURES = (_MNIST, _CIFAR10, _IMAGENET64)
