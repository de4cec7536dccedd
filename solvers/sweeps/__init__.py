"""One problem and the sweeps over its tree: reach down, counterfactual values up."""
