"""Interrupts at every moment and at random ones, and what they leave behind."""
