"""Trials: any sampler under test, judged on targets of its kind through the contract alone."""
