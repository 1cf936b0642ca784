"""What happens to sensitive spans: masks, types, consistent fakes."""
