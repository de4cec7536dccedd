"""Growing-tree CFR on trees that are made on the device, from a game's own rules."""
