"""How each table and figure is drawn."""
