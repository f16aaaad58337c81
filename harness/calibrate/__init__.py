"""Does the battery keep the level that it claims? Null campaigns, far tails, and the verdict on both."""
