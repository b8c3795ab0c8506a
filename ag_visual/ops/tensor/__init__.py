"""Making tensors, converting them, and questions about them."""
