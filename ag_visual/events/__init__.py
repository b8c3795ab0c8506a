"""What a program did, as data: written by everything above that computes, read by observers."""
