"""Problems and their reasons: None gradients, graph breaks, dead units."""
