"""A folder an attack family: method, null and findings side by side."""
