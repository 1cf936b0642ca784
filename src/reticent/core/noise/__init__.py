"""Gaussian noise from random bits: the transform in numpy, and the same bits from machine code."""
