"""The papers' figures and tables, one short file each, composed of the system's public parts."""
