"""The estimate: what the sampled path would cost and gain a round, from verified receipts and exact laws."""
