"""What is a finite integer function is enumerated: no alpha is spent, one difference fails."""
