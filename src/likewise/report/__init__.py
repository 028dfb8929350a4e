"""A record in words, pages and plots."""
