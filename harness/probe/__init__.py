"""The probe: how long a round of the proposal and of the verification takes, beside the launch floor and its peers."""
