"""torch.utils: what is around training."""
