"""Charges of private prediction over whole vocabularies, in compiled loops."""
