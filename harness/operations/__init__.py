"""Campaigns that survive: a folder of pieces, the executors that run them, their status, the merge, the wrapper."""
