"""Games whose payoffs depend on parameters: the best of these, and regrets carried over."""
