"""One receipt against another, and against the present sources: compare, history, replay, repro."""
