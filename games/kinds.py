"""The kinds of public states and of nodes of public trees: the mover, or none."""

PLAYER_0 = 0
PLAYER_1 = 1
CHANCE = 2
TERMINAL = 3
LEAF = 4  # a decision or chance state at the depth limit; its value comes from outside
PADDING = 5  # a node of the common shape of stacked trees that this tree does not have
