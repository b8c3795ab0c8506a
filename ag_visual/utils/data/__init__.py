"""torch.utils.data: datasets, samplers, and the loader that makes batches."""

from ag_visual import absent as _absent
from ag_visual.names import expose as _expose
from ag_visual.utils.data.collate import (
    default_collate as default_collate,
    default_convert as default_convert,
)
from ag_visual.utils.data.dataset import (
    ChainDataset as ChainDataset,
    ConcatDataset as ConcatDataset,
    Dataset as Dataset,
    IterableDataset as IterableDataset,
    StackDataset as StackDataset,
    Subset as Subset,
    TensorDataset as TensorDataset,
    random_split as random_split,
)
from ag_visual.utils.data.loader import DataLoader as DataLoader
from ag_visual.utils.data.sampler import (
    BatchSampler as BatchSampler,
    RandomSampler as RandomSampler,
    Sampler as Sampler,
    SequentialSampler as SequentialSampler,
    SubsetRandomSampler as SubsetRandomSampler,
    WeightedRandomSampler as WeightedRandomSampler,
)
from ag_visual.utils.data.worker import get_worker_info as get_worker_info

_expose(__name__, shown=("dataset", "sampler"))

__getattr__ = _absent.asked(__name__, "utils.data")
