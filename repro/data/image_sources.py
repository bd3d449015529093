"""Known sources of pictures. Standard library only."""

from dataclasses import dataclass, field

from repro.data.source import Source

PARTS = ("images", "labels")
VARIANT = "pixels"


@dataclass(frozen=True)
class Look:
    """What the pictures of a source are.

    Attributes:
        shape: height, width and channels of each.
        n_classes: classes they are labelled with; 0 where they have no labels.
        columns: names of picture and label on the hub.
        lossy: SHA-256 of the test pictures of copies in which some are not the original ones, and how many.
        archives: of which a split is read picture by picture, the name of its archive without the end; empty where
            a split is read at once.
        examples: how many pictures the splits of archives have.
    """

    shape: tuple[int, int, int]
    n_classes: int
    columns: tuple[str, str] = ("", "")
    lossy: dict[str, int] = field(default_factory=dict)
    archives: dict[str, str] = field(default_factory=dict)
    examples: dict[str, int] = field(default_factory=dict)


LOOKS = {
    "mnist": Look((28, 28, 1), 10, ("image", "label")),
    "cifar10": Look(
        (32, 32, 3),
        10,
        ("img", "label"),
        lossy={"4674ac8c77f372061aaf9216c8857c99599d5df0bb9f6b16a3de613ef8eb348a": 23},
    ),
    "imagenet64": Look(
        (64, 64, 3),
        0,
        archives={"train": "train_64x64", "val": "valid_64x64"},
        examples={"train": 1_281_149, "val": 49_999},
    ),
}
_MNIST = Source(
    name="mnist",
    title="MNIST: handwritten digits, 28 x 28, grey (LeCun, Cortes, Burges)",
    licence="Creative Commons Attribution-ShareAlike 3.0, as commonly stated for it",
    size="12 MB (55 MB unpacked), 60,000 training pictures",
    parts=PARTS,
    splits=("train", "test"),
    required=("train", "test"),
    hub_id="ylecun/mnist",
    hub_splits={"train": "train", "test": "test"},
    kind="images",
    variant=VARIANT,
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
_CIFAR10 = Source(
    name="cifar10",
    title="CIFAR-10: photographs of ten things, 32 x 32, in colour (Krizhevsky 2009)",
    licence="none stated by its maker; cite Krizhevsky 2009",
    size="170 MB (185 MB unpacked), 50,000 training pictures",
    parts=PARTS,
    splits=("train", "test"),
    required=("train", "test"),
    hub_id="uoft-cs/cifar10",
    hub_splits={"train": "train", "test": "test"},
    kind="images",
    variant=VARIANT,
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
_IMAGENET64 = Source(
    name="imagenet64",
    title="downsampled ImageNet, 64 x 64, in colour, without labels (van den Oord et al. 2016)",
    licence="ImageNet's terms: research, non-commercial; the pictures belong to their owners",
    size="12 GB (16 GB unpacked), 1,281,149 training pictures",
    parts=PARTS[:1],
    splits=("train", "val"),
    required=("train", "val"),
    aliases={"test": "val"},
    obtained="files",
    kind="images",
    variant=VARIANT,
    files=("train_64x64.tar", "valid_64x64.tar"),
)
IMAGE_SOURCES = (_MNIST, _CIFAR10, _IMAGENET64)
