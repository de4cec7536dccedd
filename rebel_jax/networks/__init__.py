"""Value and policy networks on public belief states."""
