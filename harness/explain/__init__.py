"""What each check tests, for which fault, and what it can see: one table, read by `pp3 explain`."""
