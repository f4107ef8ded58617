"""What the edge asks of the rooms, in the edge's words."""
