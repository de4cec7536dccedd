"""One training run from beginning to end: its folder, metrics, display and signals."""
