"""Experimental overlays of a pinned vLLM: two edited files and an attestation, made in a new folder, never deployed."""
