"""Tables in, audit data out."""
