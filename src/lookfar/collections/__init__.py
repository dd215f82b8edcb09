"""What a library holds: each kind of collection keeps itself true to its source."""
