"""Trains ReBeL: `python train.py` for Liar's Dice, `python train.py --help` for everything."""

import time

STARTED = time.monotonic()

import signal  # noqa: E402
import sys  # noqa: E402

if __name__ == "__main__" and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
  signal.signal(signal.SIGINT, signal.SIG_DFL)  # ends the command without a traceback

from rebel_jax.train import main  # noqa: E402

if __name__ == "__main__":
  sys.exit(main(started=STARTED))
