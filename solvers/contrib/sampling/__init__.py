"""Monte Carlo CFR: traversals that visit a sample of a public tree's histories."""
