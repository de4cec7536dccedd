"""Commands for those who keep this library: networks to ship, runs that must survive."""
