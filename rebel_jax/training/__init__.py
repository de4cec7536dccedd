"""Self-play, replay and learning as one compiled scan over devices."""
