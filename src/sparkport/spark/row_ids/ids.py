"""Arrays of row ids."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int64]
NO_IDS: Ids = np.empty(0, np.int64)
