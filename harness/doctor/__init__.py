"""What this machine has of what PP3 needs: `pp3 doctor`."""
