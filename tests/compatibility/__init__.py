"""Topics and checkpoints that earlier versions wrote, and whether this one reads them."""
