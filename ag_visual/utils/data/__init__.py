"""torch.utils.data in one process: datasets, samplers, and the loader that makes batches."""

from ag_visual import absent as _absent
from ag_visual.names import only as _only
from ag_visual.utils.data.collate import default_collate, default_convert
from ag_visual.utils.data.dataset import (
    ChainDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    random_split,
)
from ag_visual.utils.data.loader import DataLoader, get_worker_info
from ag_visual.utils.data.sampler import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

__all__ = [
    "BatchSampler",
    "ChainDataset",
    "ConcatDataset",
    "DataLoader",
    "Dataset",
    "IterableDataset",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "StackDataset",
    "Subset",
    "SubsetRandomSampler",
    "TensorDataset",
    "WeightedRandomSampler",
    "default_collate",
    "default_convert",
    "get_worker_info",
    "random_split",
]
__dir__ = _only([*__all__, "dataset", "sampler"], __name__)

__getattr__ = _absent.asked(__name__, "utils.data")
