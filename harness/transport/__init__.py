"""The way a proposal takes from its producer to the verifier: drafter, frames, proxies, dense q by state slot."""
