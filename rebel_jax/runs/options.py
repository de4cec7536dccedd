"""Options of a command that trains: they change nothing of what a configuration trains."""

import dataclasses
from typing import Annotated

from rebel_jax.config import allowed
from rebel_jax.config.allowed import WRITERS


@dataclasses.dataclass(frozen=True)
class RunOptions:
  """Place of a run, its devices, and what it keeps.

  Attributes:
    output_dir: Folder for configuration, metrics, checkpoints and figure; None for a new
      runs/PRESET-N.
    resume: Go on with the run in output_dir, or in the newest folder of runs/, with its settings;
      those that change what is trained must stay, but for the iterations of searches.
    checkpoint_every: Seconds between checkpoints, beside those after evaluations.
    num_devices: Devices to train on, None for all; each core of a CPU counts as one, as long as it
      has 16 lanes to serve.
    module: Module, or .py file, to import first: it registers a game, a network, an optimizer or a
      writer of your own.
    writers: What gets each row of metrics beside metrics.jsonl: csv, tensorboard, or what was
      registered.
    tensorboard: Write the metrics as TensorBoard event files too, as writers tensorboard does; this
      needs the extra rebel-jax[tensorboard].
  """

  output_dir: Annotated[str | None, allowed.optional(allowed.path("folder"))] = None
  resume: bool = False
  checkpoint_every: Annotated[float, allowed.number()] = 60.0
  num_devices: Annotated[int | None, allowed.optional(allowed.integer(1))] = None
  module: Annotated[str | None, allowed.optional(allowed.text("MODULE"))] = None
  writers: Annotated[tuple[str, ...], allowed.several(WRITERS)] = ()
  tensorboard: bool = False
