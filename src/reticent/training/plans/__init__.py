"""What a training will do and what that costs."""
