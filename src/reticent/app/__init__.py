"""Layer 3: configuration, wiring, journeys, the command line and the server."""
