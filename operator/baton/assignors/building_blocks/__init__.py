"""What assignors of several origins are made of."""
