"""Trains ReBeL: `python train.py` for Liar's Dice, `python train.py --help` for everything."""

import time

STARTED = time.monotonic()

import sys  # noqa: E402

from rebel_jax.cli import main  # noqa: E402

if __name__ == "__main__":
  sys.exit(main(started=STARTED))
