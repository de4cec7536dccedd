"""Rules on JAX's arrays, one public state at a time: for trees that are made on the device."""
